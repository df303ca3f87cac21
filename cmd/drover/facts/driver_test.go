package facts_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// nodeDriver is a driver with the name of the object, the driver's own, and the kind it serves.
func nodeDriver(name, displayName, kind string) v3.NodeDriver {
	return v3.NodeDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v3.NodeDriverSpec{DisplayName: displayName}, Status: v3.NodeDriverStatus{MachineKind: kind},
	}
}

func TestDriverName(t *testing.T) {
	drivers := []v3.NodeDriver{nodeDriver("nd-x", "my-cloud", "MycloudMachine"), nodeDriver("pending", "", "")}
	require.Equal(t, "my-cloud", facts.DriverName("MycloudMachine", drivers))
	require.Equal(t, "digitalocean", facts.DriverName("DigitaloceanMachine", drivers))
	require.Equal(t, "mycloud", facts.DriverName("MycloudMachine", nil), "who may not read NodeDrivers sees the kind's name")
	require.Empty(t, facts.DriverName("", drivers), "no kind is not the kind of a driver that has none yet")
}

func TestDriverOf(t *testing.T) {
	drivers := []v3.NodeDriver{nodeDriver("pending", "", ""), nodeDriver("nd-x", "my-cloud", "MycloudMachine")}
	require.Same(t, &drivers[1], facts.DriverOf("MycloudMachine", drivers))
	require.Nil(t, facts.DriverOf("", drivers))
	require.Nil(t, facts.DriverOf("OtherMachine", drivers))
}

func TestDriverNamed(t *testing.T) {
	drivers := []v3.NodeDriver{
		nodeDriver("nd-old", "my-cloud", ""),
		nodeDriver("nd-new", "my-cloud", "MycloudMachine"),
		nodeDriver("nd-third", "my-cloud", "MycloudMachine"),
		nodeDriver("digitalocean", "", "DigitaloceanMachine"),
		nodeDriver("nd-clash", "nd-old", ""),
	}
	for name, want := range map[string]string{
		"nd-old":       "nd-old", // the object before the driver that calls itself so
		"my-cloud":     "nd-new", // the one that has the kinds
		"My-Cloud":     "nd-new",
		"digitalocean": "digitalocean",
		"DigitalOcean": "digitalocean",
	} {
		require.Equal(t, want, facts.DriverNamed(name, drivers).Name, name)
	}
	for _, name := range []string{"", "cloud", "MycloudMachine"} {
		require.Nil(t, facts.DriverNamed(name, drivers), name)
	}
}

func TestShownURL(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"local://":                             "local://",
		"not a URL":                            "not a URL",
		"https://h.example/d":                  "https://h.example/d",
		"https://user@h.example/d":             "https://user@h.example/d",
		"https://user:MARKER@h.example/d?a=1":  "https://user:xxxxx@h.example/d?a=1",
		"https://user:MARKER@h.example":        "https://user:xxxxx@h.example",
		"https://:MARKER@h.example/":           "https://:xxxxx@h.example/",
		"https://user:@h.example/":             "https://user:xxxxx@h.example/",
		"https://user:MAR@KER:x@h.example/":    "https://user:xxxxx@h.example/",
		"https://user:MARKER@h.example/a@b:c":  "https://user:xxxxx@h.example/a@b:c",
		"https://h.example/path:with@signs":    "https://h.example/path:with@signs",
		"https://h.example?x=a:b@c":            "https://h.example?x=a:b@c",
		"https://h.example#a:b@c":              "https://h.example#a:b@c",
		"ht!tp://user:MARKER%zz@h.example/":    "ht!tp://user:xxxxx@h.example/",
		"https://user:MARKER@[fe80::1]:8443/d": "https://user:xxxxx@[fe80::1]:8443/d",
	} {
		require.Equal(t, want, facts.ShownURL(text))
	}
}

// FuzzShownURL: whatever net/url takes for a password is not shown, and what has none is shown as it is.
func FuzzShownURL(f *testing.F) {
	f.Add("https://user:MARKER@h.example/d?a=1")
	f.Add("https://user@h.example:80/@:")
	f.Fuzz(func(t *testing.T, text string) {
		shown := facts.ShownURL(text)
		require.Equal(t, shown, facts.ShownURL(shown), "what is shown has nothing to hide")
		parsed, err := url.Parse(text)
		if err != nil || parsed.Host == "" {
			return
		}
		again, err := url.Parse(shown)
		require.NoError(t, err, "it is still a URL")
		require.Equal(t, parsed.Redacted(), again.String(), "all but the password is as it was")
		if _, has := parsed.User.Password(); !has {
			require.Equal(t, text, shown)
		}
	})
}
