package server

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

// newDir is a data directory whose name is short enough in every test.
func newDir(t *testing.T) datadir.Dir {
	t.Helper()
	path, err := os.MkdirTemp(filepath.Dir(filepath.Dir(t.TempDir())), "lk-") //nolint:usetesting // its names are too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(path)) })
	dir, err := datadir.Open(path)
	require.NoError(t, err)
	return dir
}

func write(t *testing.T, dir datadir.Dir, content string, elem ...string) {
	t.Helper()
	require.NoError(t, dir.Write([]byte(content), elem...))
}

// refusedRuns are directories and options with which no server starts; DIR is
// the data directory, and nothing in it may change.
func refusedRuns() map[string]struct {
	prepare func(t *testing.T, dir datadir.Dir)
	opts    Options
	want    string
} {
	nothing := func(*testing.T, datadir.Dir) {}
	return map[string]struct {
		prepare func(t *testing.T, dir datadir.Dir)
		opts    Options
		want    string
	}{
		"--ephemeral on somebody's files": {
			func(t *testing.T, dir datadir.Dir) { t.Helper(); write(t, dir, "thesis", "thesis.tex") },
			Options{Ephemeral: true},
			"--ephemeral removes DIR in the end and there is something in it: name an empty or a new directory",
		},
		"--ephemeral on a lasting server": {
			func(t *testing.T, dir datadir.Dir) {
				t.Helper()
				require.NoError(t, dir.SaveConfig(datadir.Config{NodeName: "n"}))
			},
			Options{Ephemeral: true},
			"--ephemeral removes DIR in the end and there is something in it: name an empty or a new directory",
		},
		"an agent's directory": {
			func(t *testing.T, dir datadir.Dir) { t.Helper(); write(t, dir, "{}", "agent.json") },
			Options{},
			"DIR is an agent's: give the server a data directory of its own",
		},
		"an agent's directory that is broken": {
			func(t *testing.T, dir datadir.Dir) { t.Helper(); write(t, dir, "", "agent.json") },
			Options{},
			"reading the agent's settings in DIR/agent.json: unexpected end of JSON input",
		},
		"settings that are broken": {
			func(t *testing.T, dir datadir.Dir) { t.Helper(); write(t, dir, "{", "config.json") },
			Options{},
			"reading settings in DIR/config.json: unexpected end of JSON input",
		},
		"another name than before": {
			func(t *testing.T, dir datadir.Dir) {
				t.Helper()
				require.NoError(t, dir.SaveConfig(datadir.Config{NodeName: "n", PodCIDR: DefaultPodCIDR, ServiceCIDR: DefaultServiceCIDR}))
			},
			Options{Node: node.Options{Name: "m"}},
			"--node-name is n in this data directory and cannot become m",
		},
		"a range that overlaps one that is kept": {
			func(t *testing.T, dir datadir.Dir) {
				t.Helper()
				require.NoError(t, dir.SaveConfig(datadir.Config{NodeName: "n", PodCIDR: DefaultPodCIDR}))
			},
			Options{ServiceCIDR: "198.19.1.0/24"},
			"pods (198.19.0.0/17) and services (198.19.1.0/24) must not share addresses: set --pod-cidr and --service-cidr",
		},
		"a range that overlaps the other's default": {
			nothing, Options{PodCIDR: "198.19.128.0/20"},
			"pods (198.19.128.0/20) and services (198.19.128.0/17) must not share addresses: set --pod-cidr and --service-cidr",
		},
		"an address among the pods": {
			nothing, Options{AdvertiseAddress: "198.19.0.7"},
			"this machine's address 198.19.0.7 lies in 198.19.0.0/17, which is for pods or services: set --advertise-address, or --pod-cidr and --service-cidr",
		},
		"an address that is none": {
			nothing, Options{BindAddress: "localhost"}, "--bind-address localhost is not an IP address",
		},
		"an authority without its key": {
			func(t *testing.T, dir datadir.Dir) { t.Helper(); expiredAuthority(t, dir, true) },
			Options{},
			"opening authority ca: reading key: open DIR/pki/ca.key: no such file or directory",
		},
	}
}

func TestRun_refuses(t *testing.T) {
	for name, tc := range refusedRuns() {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			tc.prepare(t, dir)
			before := names(t, dir)
			opts := tc.opts
			opts.DataDir = dir.Root()
			var out, log bytes.Buffer
			err := Run(t.Context(), opts, &out, &log)
			require.EqualError(t, err, strings.ReplaceAll(tc.want, "DIR", dir.Root()))
			require.Empty(t, out.String(), "stdout is for the kubeconfig's path alone")
			_, held, err := dir.Holder()
			require.NoError(t, err)
			require.False(t, held, "the lock is given back")
			if name != "an authority without its key" { // which is seen after the settings are kept
				require.Equal(t, before, names(t, dir), "a refused wish leaves no trace")
			}
		})
	}
}

// names are the files of a directory but for the lock.
func names(t *testing.T, dir datadir.Dir) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir.Root(), func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		if entry.IsDir() || entry.Name() == "lock" {
			return nil
		}
		raw, err := os.ReadFile(path)
		files[path] = string(raw)
		return err
	}))
	return files
}

// expiredAuthority puts an authority there whose time is over; withoutKey
// leaves only a good certificate.
func expiredAuthority(t *testing.T, dir datadir.Dir, withoutKey bool) {
	t.Helper()
	key, err := pki.OpenKey(dir.Path("pki", "ca.key"))
	require.NoError(t, err)
	until := time.Now().Add(-time.Hour)
	if withoutKey {
		until = time.Now().Add(time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localkube-ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	write(t, dir, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "pki", "ca.crt")
	if withoutKey {
		require.NoError(t, os.Remove(dir.Path("pki", "ca.key")))
	}
}

func TestRun_says_that_the_authority_has_expired(t *testing.T) {
	dir := newDir(t)
	expiredAuthority(t, dir, false)
	err := Run(t.Context(), Options{DataDir: dir.Root()}, io.Discard, io.Discard)
	require.Error(t, err)
	require.Regexp(t, `^opening authority ca: it expired at \S+ and this machine's clock says \S+: set the clock, or start a new cluster in a new data directory$`, err.Error())
}

func TestRun_says_which_port_is_taken(t *testing.T) {
	_, taken := listener(t)
	dir := newDir(t)
	var log bytes.Buffer
	err := Run(t.Context(), Options{DataDir: dir.Root(), HTTPSPort: taken}, io.Discard, &log)
	require.EqualError(t, err, fmt.Sprintf(
		"port %d of 127.0.0.1, for the API server, is in use by another program: stop that one, or choose another with --https-port", taken))
	require.Regexp(t, `^localkube +\d+\.\d\ds  stopping\nlocalkube +\d+\.\d\ds  stopped\n$`, log.String())
	require.NoDirExists(t, dir.Path("logs"), "nothing was started")
}

func TestRun_of_a_second_server(t *testing.T) {
	dir := newDir(t)
	lock, err := dir.Lock()
	require.NoError(t, err)
	want := "process " + strconv.Itoa(os.Getpid()) + " already runs localkube on " + dir.Root() + ": stop it with localkube down --data-dir " + dir.Root()
	for _, opts := range []Options{{DataDir: dir.Root()}, {DataDir: dir.Root(), Ephemeral: true}} {
		require.EqualError(t, Run(t.Context(), opts, io.Discard, io.Discard), want)
	}
	require.NoError(t, os.Truncate(dir.Path("lock"), 0))
	require.EqualError(t, Run(t.Context(), Options{DataDir: dir.Root()}, io.Discard, io.Discard),
		strings.Replace(want, "process "+strconv.Itoa(os.Getpid()), "a process that does not say which", 1))
	require.NoError(t, lock.Release())
	require.DirExists(t, dir.Root(), "an ephemeral server that never ran removes nothing")
}

func TestCheckKubeconfig(t *testing.T) {
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	pair, err := store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin"})
	require.NoError(t, err)
	own := filepath.Join(dir, "own")
	require.NoError(t, pki.Kubeconfig{Server: "https://x", CA: store.Cluster.CertPEM(), User: "u", Pair: pair}.Write(own))
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	for name, tc := range map[string]struct{ path, want string }{
		"none asked for":        {"", ""},
		"a new one":             {filepath.Join(dir, "new", "deep"), ""},
		"one of ours":           {own, ""},
		"an empty one":          {file("empty", ""), ""},
		"the user's own":        {file("config", "clusters: [{name: prod, cluster: {server: 'https://p'}}]"), "--kubeconfig DIR/config holds something else than the access to a localkube: name another file"},
		"no kubeconfig":         {file("letter", "Dear Sir"), "--kubeconfig DIR/letter holds something else than the access to a localkube: name another file"},
		"a directory":           {dir, "looking at --kubeconfig: read DIR: is a directory"},
		"a path through a file": {filepath.Join(own, "x"), "looking at --kubeconfig: open DIR/own/x: not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Options{Kubeconfig: tc.path}.validate()
			requireText(t, strings.ReplaceAll(tc.want, "DIR", dir), err)
		})
	}
}

func TestJoinToken(t *testing.T) {
	dir := newDir(t)
	_, err := JoinToken(dir.Root(), pki.RoleAgent, time.Hour)
	require.EqualError(t, err, "no server has run on this data directory: a token is made where one has")
	require.NoError(t, dir.SaveConfig(datadir.Config{NodeName: "n"}))
	_, err = JoinToken(dir.Root(), pki.RoleAgent, time.Hour)
	require.EqualError(t, err, "opening authority ca: open "+dir.Path("pki", "ca.crt")+": no such file or directory")
	require.NoDirExists(t, dir.Path("pki"), "no authority is founded for a token")
	store, err := pki.Open(dir.Path("pki"))
	require.NoError(t, err)
	token, err := JoinToken(dir.Root(), pki.RoleServer, time.Hour)
	require.NoError(t, err)
	require.NoError(t, store.Admits(pki.RoleServer, token.Secret))
	require.ErrorIs(t, store.Admits(pki.RoleAgent, token.Secret), pki.ErrTokenUnknown)
	for _, bad := range []time.Duration{0, -1} {
		_, err = JoinToken(dir.Root(), pki.RoleAgent, bad)
		require.ErrorContains(t, err, "a token cannot last")
	}
	_, err = JoinToken(dir.Root(), "", time.Hour)
	require.EqualError(t, err, `unknown role "": a token is for an agent or a server`)
}

func TestCheckRoom(t *testing.T) {
	require.NoError(t, checkRoom(newDir(t)))
	missing, err := datadir.Locate("/nowhere/at/all")
	require.NoError(t, err)
	require.EqualError(t, checkRoom(missing), "asking for the room left for /nowhere/at/all: no such file or directory")
	full, err := datadir.Locate("/proc")
	require.NoError(t, err)
	require.EqualError(t, checkRoom(full), "the file system of /proc has room for 0 MiB and a server needs 200 MiB: make room or name another --data-dir")
}
