package releases_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/releases"
)

func catalogue(tb testing.TB) *releases.Catalogue {
	tb.Helper()
	c, err := releases.Default()
	require.NoError(tb, err)
	return c
}

func TestDefault(t *testing.T) {
	c := catalogue(t)
	require.False(t, c.Distributions["k3s"].ListedOnly, "a security release must not wait for ours")
	for _, distribution := range []string{releases.K3s, releases.RKE2} {
		for minor, versions := range c.Distributions[distribution].Lines {
			require.NotEmpty(t, versions, minor)
			for _, version := range versions {
				r, err := c.Lookup(version)
				require.NoError(t, err)
				require.True(t, r.Listed)
				require.Equal(t, distribution, r.Distribution)
				for _, name := range []string{"server", "token", "node-label", "node-taint", "node-ip", "node-external-ip", "kubelet-arg", "data-dir", "node-name"} {
					require.NotEqual(t, releases.Unknown, r.Argument(name, false), name)
					require.Equal(t, r.Argument(name, false), r.Argument(name, true), name)
				}
			}
		}
	}
}

func TestLookup(t *testing.T) {
	open := catalogue(t)
	listed := catalogue(t)
	d := listed.Distributions["k3s"]
	d.ListedOnly = true
	listed.Distributions["k3s"] = d
	delete(listed.Distributions, "rke2")
	for name, tt := range map[string]struct {
		in      *releases.Catalogue
		version string
		says    string
	}{
		"listed":                        {open, "v1.36.3+k3s1", ""},
		"of a known line":               {open, "v1.36.99+k3s1", ""},
		"a release candidate":           {open, "v1.36.4-rc1+rke2r1", ""},
		"of an unknown line":            {open, "v1.99.0+rke2r1", "unknown release: the catalogue has rke2 1.33, 1.34, 1.35, 1.36, and no release of 1.99"},
		"not listed, where that counts": {listed, "v1.36.99+k3s1", "v1.36.3+k3s1 of k3s 1.36, and no others are allowed"},
		"another distribution":          {listed, "v1.36.3+rke2r1", "has no release of rke2"},
		"plain Kubernetes":              {open, "v1.36.3", "is not a release of k3s or RKE2, such as"},
		"no version":                    {open, "latest", "is not a release"},
		"a number that is too large":    {open, "v1.99999999999999999999.0+k3s1", "is not a release of k3s or RKE2"},
		"text after it":                 {open, "v1.36.3+k3s1\n", "is not a release"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := tt.in.Lookup(tt.version)
			if tt.says != "" {
				require.ErrorContains(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.version, r.Version)
		})
	}
	_, err := open.Lookup("v1.1.0+k3s1")
	require.ErrorIs(t, err, releases.ErrUnknown)
	_, err = open.Lookup("1.36")
	require.NotErrorIs(t, err, releases.ErrUnknown)
}

func TestRelease(t *testing.T) {
	k3s, err := catalogue(t).Lookup("v1.36.3+k3s1")
	require.NoError(t, err)
	require.Equal(t, "rancher/system-agent-installer-k3s:v1.36.3-k3s1", k3s.Image(""))
	require.Equal(t, "registry.example.com:5000/rancher/system-agent-installer-k3s:v1.36.3-k3s1", k3s.Image("registry.example.com:5000"))
	require.Equal(t, releases.List, k3s.Argument("kube-apiserver-arg", true))
	require.Equal(t, releases.Unknown, k3s.Argument("kube-apiserver-arg", false), "an agent has no API server")
	require.Equal(t, releases.Boolean, k3s.Argument("cluster-init", true))
	require.Equal(t, releases.Number, k3s.Argument("etcd-snapshot-retention", true))

	rke2, err := catalogue(t).Lookup("v1.36.3+rke2r1")
	require.NoError(t, err)
	require.Equal(t, releases.Unknown, rke2.Argument("cluster-init", true), "RKE2 drops it")
	require.Equal(t, releases.List, rke2.Argument("cni", true))

	own, err := releases.Parse([]byte(`distributions: {k3s: {installer: "images.example.com:5000/k3s", lines: {"1.36": []}}}`))
	require.NoError(t, err)
	r, err := own.Lookup("v1.36.3+k3s1")
	require.NoError(t, err)
	require.Equal(t, "images.example.com:5000/k3s:v1.36.3-k3s1", r.Image("registry.example.com"), "a host in the catalogue counts")
}

// A mistyped argument leads to the one known argument that is near.
func TestRelease_Nearest(t *testing.T) {
	k3s, err := catalogue(t).Lookup("v1.36.3+k3s1")
	require.NoError(t, err)
	for name, want := range map[string]string{
		"kubelet-args": "kubelet-arg", "kublet-arg": "kubelet-arg", "Kubelet_Arg": "kubelet-arg", "tls-sans": "tls-san", "tlsSan": "tls-san", "node-lables": "node-label",
		"cluster-cdir": "cluster-cidr", "disabel": "disable", "future": "", "x": "", "": "", "max-pods": "", "kubelet-argument": "",
		strings.Repeat("a", 100): "",
	} {
		require.Equal(t, want, k3s.Nearest(name), name)
	}
}

func TestParseRefuses(t *testing.T) {
	const good = `distributions: {k3s: {installer: a/b, lines: {"1.36": [v1.36.3+k3s1]}`
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":                       {"", "no distributions"},
		"no YAML":                       {"{", "reading the catalogue"},
		"too much":                      {strings.Repeat("#", releases.MaxBytes+1), "at most"},
		"an alias":                      {"a: &a [x]\nb: *a\n", "YAML alias"},
		"a field that is not known":     {good + ", installers: x}}", "installers"},
		"a distribution of another":     {"distributions: {kubeadm: {}}", `"kubeadm" is neither`},
		"no installer":                  {`distributions: {k3s: {lines: {"1.36": []}}}`, `installer ""`},
		"an installer with a tag":       {`distributions: {k3s: {installer: "a/b:1", lines: {"1.36": []}}}`, "not an image without a tag"},
		"no lines":                      {"distributions: {k3s: {installer: a}}", "no lines"},
		"a line that is none":           {`distributions: {k3s: {installer: a, lines: {latest: []}}}`, `"latest" is not a minor`},
		"a release of another line":     {`distributions: {k3s: {installer: a, lines: {"1.35": [v1.36.3+k3s1]}}}`, "is not a release of k3s 1.35"},
		"a release of another one's":    {`distributions: {k3s: {installer: a, lines: {"1.36": [v1.36.3+rke2r1]}}}`, "is not a release of k3s"},
		"an argument of two kinds":      {good + `, arguments: {both: {text: [server]}, agent: {list: [server]}}}}`, "server is listed twice"},
		"an argument that is no name":   {good + `, arguments: {both: {text: ["--server"]}}}}`, "is not a valid argument name"},
		"a line that is parsed as text": {good + `, arguments: {both: {text: 7}}}}`, "reading the catalogue"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := releases.Parse([]byte(tt.text))
			require.ErrorContains(t, err, tt.says)
			require.Less(t, len(err.Error()), 2048)
		})
	}
}

// FuzzParse: refused, or a catalogue of which every release that it lists is found.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`distributions: {k3s: {installer: a/b, listedOnly: true, lines: {"1.36": [v1.36.3+k3s1]}, arguments: {both: {text: [server]}}}}`))
	f.Add([]byte("a: &a [x]\nb: *a\n"))
	f.Add([]byte(`distributions: {rke2: {installer: a, lines: {"01.36": [v01.36.3+rke2]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := releases.Parse(text)
		if err != nil {
			return
		}
		for _, distribution := range c.Distributions {
			for _, versions := range distribution.Lines {
				for _, version := range versions {
					r, err := c.Lookup(version)
					require.NoError(t, err)
					require.True(t, r.Listed)
					require.NotContains(t, r.Image(""), "+")
				}
			}
		}
		_, _ = c.Lookup("v9.9.9+k3s1")
	})
}

// TestNewest: the newest release is the last one of the newest line, and is found.
func TestNewest(t *testing.T) {
	c, err := releases.Default()
	require.NoError(t, err)
	for _, distribution := range []string{releases.K3s, releases.RKE2} {
		all := c.Releases(distribution)
		newest, err := c.Lookup(c.Newest(distribution))
		require.NoError(t, err)
		require.True(t, newest.Listed)
		for _, name := range all {
			release, err := c.Lookup(name)
			require.NoError(t, err)
			require.False(t, newest.Number.LessThan(release.Number), name)
		}
	}
	require.Empty(t, c.Newest("kubeadm"))
	require.Equal(t, "region", releases.Nearest("regoin", []string{"size", "region"}))
	require.Empty(t, releases.Nearest("zone", []string{"size", "region"}))
}
