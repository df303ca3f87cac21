package clouds_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/driver"
)

func classes() []string {
	return []string{rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled, rkev1.ClassTransient,
		rkev1.ClassUnknown}
}

// TestClassify_of_every_driver: whatever the driver, what the network and the operating system say means the same.
func TestClassify_of_every_driver(t *testing.T) {
	for text, want := range map[string]string{
		"Get \"https://api.example.com/\": dial tcp 198.18.0.1:443: connect: connection refused":          rkev1.ClassTransient,
		"Get \"https://api.example.com/\": dial tcp: lookup api.example.com on 10.0.0.1:53: no such host": rkev1.ClassTransient,
		"Get \"https://api.example.com/\": context deadline exceeded (Client.Timeout exceeded)":           rkev1.ClassTransient,
		"Get \"https://api.example.com/\": net/http: TLS handshake timeout":                               rkev1.ClassTransient,
		"Post \"https://api.example.com/\": read: connection reset by peer":                               rkev1.ClassTransient,
		"Post \"https://api.example.com/\": unexpected EOF":                                               rkev1.ClassTransient,
		"tls: failed to verify certificate: x509: certificate signed by unknown authority":                rkev1.ClassInvalid,
		"tls: failed to verify certificate: x509: certificate is valid for a, not b":                      rkev1.ClassInvalid,
		"tls: failed to verify certificate: x509: certificate has expired or is not yet valid":            rkev1.ClassInvalid,
		"open /x/cloud-config: no such file or directory":                                                 rkev1.ClassInvalid,
		"Panic in the driver: runtime error: index out of range [0] with length 0":                        rkev1.ClassUnknown,
		"something that nobody has heard of":                                                              rkev1.ClassUnknown,
		"":                                                                                                rkev1.ClassUnknown,
	} {
		if strings.HasPrefix(text, "Panic") {
			require.Equal(t, want, clouds.Of("vmwarevsphere").Classify(text+"\ngoroutine 1 [running]:\nquota.go:401"), "a stack has all kinds of words")
			continue
		}
		for _, name := range append(driver.BuiltinNames(), "linode", "hetzner", "acme", "") {
			require.Equal(t, want, clouds.Of(name).Classify(text), "%s: %s", name, text)
			require.Equal(t, want, clouds.Of(name).Classify(strings.ToUpper(text)), "letters' size does not matter")
		}
	}
}

// FuzzClassify: any text has one of the known classes; a text about the credential is never about a server that is gone; and
// what is gone is so whatever the size of its letters.
func FuzzClassify(f *testing.F) {
	for _, text := range []string{
		"POST https://api.digitalocean.com/v2/droplets: 422 (request \"x\") will exceed your droplet limit", "[429] x", "StatusCode=409",
		"Status=404 Code=\"SubscriptionNotFound\"", "vm 'm1' not found", "https://", "http://:80", "EOF", "\x00\xff: 401",
		"Panic in the driver: m1 not found", "x\nGoroutine 1: m1 not found",
	} {
		f.Add("digitalocean", text)
		f.Add("azure", text)
		f.Add("vmwarevsphere", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		class := clouds.Of(name).Classify(text)
		require.Contains(t, classes(), class)
		gone := clouds.Of(name).IsGone(text)
		require.False(t, gone && class == rkev1.ClassUnauthorized, "a credential that fails sees no servers")
		require.Equal(t, gone, clouds.Of(name).IsGone(strings.ToLower(text)))
		if clouds.Of(name).NothingMade(class, text) {
			require.NotContains(t, []string{rkev1.ClassTransient, rkev1.ClassUnknown}, class)
		}
	})
}

// TestClassify_table: for every built-in driver there are texts of every class, in testdata or from its library in package words.
// What is not there is written down here: nobody could name a text that the driver would say.
func TestClassify_table(t *testing.T) {
	lacks := map[string][]string{}
	seen := map[string]bool{}
	for _, file := range []string{"testdata/errors.txt", "words/testdata/sdk.golden"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if parts := strings.SplitN(line, " | ", 3); len(parts) == 3 {
				seen[parts[1]+" "+parts[0]] = true
			}
		}
	}
	for _, name := range driver.BuiltinNames() {
		for _, class := range classes() {
			if class != rkev1.ClassUnknown && !seen[name+" "+class] {
				lacks[name] = append(lacks[name], class)
			}
		}
	}
	all := classes()[:len(classes())-1]
	require.Equal(t, map[string][]string{
		// These have no cloud.
		"generic": {rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled, rkev1.ClassTransient},
		"none":    all, "noop": all, "hyperv": all, "virtualbox": all, "vmwarefusion": all,
		// A pod that finds no room waits, and the driver with it, until its time is up.
		"pod": {rkev1.ClassCapacity},
		// Its API documents no message about limits.
		"softlayer":       {rkev1.ClassQuota},
		"vmwarevcloudair": {rkev1.ClassCapacity, rkev1.ClassThrottled},
		// vCenter's one quota is its licences (package words), and it slows nobody down.
		"vmwarevsphere": {rkev1.ClassQuota, rkev1.ClassThrottled},
	}, lacks)
}
