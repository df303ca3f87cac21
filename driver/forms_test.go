package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

func TestFetchNamesTheFormThatItRefuses(t *testing.T) {
	rest := strings.Repeat(".", 100)
	object := hostELF("an object file")
	object[16], object[17] = 1, 0
	foreign := hostELF("for a processor without a name")
	foreign[18], foreign[19] = 0xfe, 0x7f
	for name, tt := range map[string]struct {
		content         []byte
		reason, message string
	}{
		"xz":                {[]byte("\xfd7zXZ" + rest), v3.NotADriverReason, "compressed in a way that is not understood"},
		"bzip2":             {[]byte("BZh9" + rest), v3.NotADriverReason, "compressed in a way that is not understood"},
		"zstd":              {[]byte("\x28\xb5\x2f\xfd" + rest), v3.NotADriverReason, "compressed in a way that is not understood"},
		"7z":                {[]byte("7z\xbc\xaf" + rest), v3.NotADriverReason, "a driver comes as a Linux binary, or as .gz"},
		"universal macOS":   {[]byte("\xca\xfe\xba\xbe" + rest), v3.NotADriverReason, "a macOS program"},
		"nothing":           {nil, v3.DownloadFailedReason, "empty"},
		"page with a mark":  {[]byte("\xef\xbb\xbf<HTML>" + rest), v3.NotADriverReason, "serves a web page"},
		"page with remarks": {[]byte("<!-- sign in -->" + rest), v3.NotADriverReason, "serves a web page"},
		"XML of a bucket":   {[]byte("<?xml version='1.0'?><Error>" + rest), v3.NotADriverReason, "serves a web page"},
		"object file":       {object, v3.NotADriverReason, "but no program"},
		"unknown processor": {foreign, v3.WrongArchitectureReason, "ELF machine 32766"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch(t, tt.content, nil)
			require.ErrorContains(t, err, tt.message)
			require.Equal(t, tt.reason, driver.ReasonOf(err))
		})
	}
}

func TestChecksumKind(t *testing.T) {
	for length, want := range map[int]string{0: "", 32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"} {
		kind, err := driver.ChecksumKind(strings.Repeat("aF", length/2))
		require.NoError(t, err)
		require.Equal(t, want, kind)
	}
	for text, message := range map[string]string{
		"abc": "not hexadecimal", "zz": "not hexadecimal", "sha256:aa": "not hexadecimal",
		strings.Repeat("a", 62): "62 digits", strings.Repeat("a", 96): "96 digits; md5 has 32, sha1 40, sha256 64, sha512 128"} {
		_, err := driver.ChecksumKind(text)
		require.ErrorContains(t, err, message)
	}
}

func TestReasonsOfErrors(t *testing.T) {
	cause := errors.New("no route to host")
	err := fmt.Errorf("downloading: %w", &driver.Error{Reason: v3.DownloadFailedReason, Temporary: true, Err: cause})
	require.Equal(t, v3.DownloadFailedReason, driver.ReasonOf(err))
	require.True(t, driver.IsTemporary(err))
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "downloading: no route to host")
	for _, other := range []error{nil, cause} {
		require.Empty(t, driver.ReasonOf(other))
		require.False(t, driver.IsTemporary(other))
	}
}

// The predefined NodeDrivers are handed out to be changed: one caller's changes must not be seen by the next.
func TestPredefinedDriversAreCopies(t *testing.T) {
	first := driver.Predefined()
	for i := range first {
		first[i].Annotations = map[string]string{}
		first[i].Spec.Active = !first[i].Spec.Active
		for j := range first[i].Spec.WhitelistDomains {
			first[i].Spec.WhitelistDomains[j] = "changed"
		}
	}
	for _, nd := range driver.Predefined() {
		require.NotContains(t, nd.Spec.WhitelistDomains, "changed", nd.Name)
		require.Equal(t, "NodeDriver", nd.Kind)
		if !driver.IsBuiltin(&nd) {
			require.True(t, strings.HasPrefix(nd.Spec.URL, "https://"), nd.Name)
			require.Len(t, nd.Spec.Checksum, 64, "%s: no checksum that can be forged", nd.Name)
		}
	}
}

func TestDriverName(t *testing.T) {
	nd := &v3.NodeDriver{}
	nd.Name = "nd-abcde"
	require.Equal(t, "nd-abcde", nd.DriverName())
	nd.Spec.DisplayName = "acme"
	require.Equal(t, "acme", nd.DriverName())
}
