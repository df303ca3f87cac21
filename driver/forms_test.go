package driver_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/driver"
)

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
