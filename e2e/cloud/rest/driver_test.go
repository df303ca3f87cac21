package rest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/state"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/rest"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// impersonate serves the API under the real one's name for whoever uses Go's default transport, as the
// unmodified driver does.
func impersonate(t *testing.T) (*account.Account, *fault.Set) {
	t.Helper()
	l := ledger.New()
	a := account.New(t.Context(), account.Options{Backend: server.NewInstant(), Ledger: l, Network: &account.Network{
		Public: netip.MustParsePrefix("198.18.0.0/17"), Private: netip.MustParsePrefix("198.18.128.0/17"), Gateway: netip.MustParseAddr("198.18.0.1"),
	}})
	faults := &fault.Set{}
	s := httptest.NewUnstartedServer(rest.NewHandler(rest.Options{
		Account: a, Ledger: l, Faults: faults, Tokens: account.NewTokens(map[string]string{"secret": "marker-secret"}),
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	transport.Proxy, transport.TLSClientConfig = nil, &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}
	before := http.DefaultTransport
	http.DefaultTransport = transport
	t.Cleanup(func() {
		http.DefaultTransport = before
		transport.CloseIdleConnections()
		s.Close()
		a.Close()
	})
	return a, faults
}

// newDriver is the unmodified driver with the given flags.
func newDriver(t *testing.T, values map[string]any) *digitalocean.Driver {
	t.Helper()
	store := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(store, "machines", "web-1"), 0o700))
	d := digitalocean.NewDriver("web-1", store)
	all := map[string]any{
		"digitalocean-access-token": "marker-secret", "digitalocean-image": "debian-12-x64", "digitalocean-size": "s-1vcpu-1gb",
		"digitalocean-region": "nyc3", "digitalocean-ssh-user": "root", "digitalocean-ssh-port": 22,
	}
	maps.Copy(all, values)
	options := &drivers.CheckDriverOptions{FlagsValues: all, CreateFlags: d.GetCreateFlags()}
	require.NoError(t, d.SetConfigFromFlags(options))
	require.Empty(t, options.InvalidFlags)
	return d
}

func TestTheUnmodifiedDriverMakesAndRemovesAServer(t *testing.T) {
	a, _ := impersonate(t)
	userData := filepath.Join(t.TempDir(), "user-data")
	require.NoError(t, os.WriteFile(userData, []byte("#cloud-config\n"), 0o600))
	d := newDriver(t, map[string]any{
		"digitalocean-tags": "blue,green", "digitalocean-ipv6": true, "digitalocean-private-networking": true,
		"digitalocean-monitoring": true, "digitalocean-backups": true, "digitalocean-userdata": userData,
	})
	require.NoError(t, d.PreCreateCheck())
	require.NoError(t, d.Create())
	made, err := a.Droplet(d.DropletID)
	require.NoError(t, err)
	require.Equal(t, "web-1", made.Name)
	require.Equal(t, []string{"blue", "green"}, made.Tags)
	require.Equal(t, "198.18.1.1", d.IPAddress)
	require.Equal(t, "198.18.129.1", d.PrivateIPAddress)
	require.Equal(t, "2001:db8:d00d::101", d.IPv6Address)
	given, err := a.UserData(d.DropletID)
	require.NoError(t, err)
	require.Equal(t, "#cloud-config\n", given)
	require.Len(t, a.Keys(), 1)
	require.Equal(t, "web-1", a.Keys()[0].Name)

	require.NoError(t, d.Remove())
	require.Empty(t, a.Droplets("", ""))
	require.Empty(t, a.Keys())
	require.NoError(t, d.Remove(), "again")
	now, err := d.GetState()
	require.EqualError(t, err, "machine web-1 not found")
	require.Equal(t, state.None, now)
}

// What the driver says of each refusal is what users and the classifier of failures read.
func TestTheUnmodifiedDriverTellsWhatTheAPISaid(t *testing.T) {
	for name, test := range map[string]struct {
		match  string
		effect fault.Effect
		want   string
		left   int // droplets
	}{
		"quota text":  {fault.CreateDroplet, fault.Quota, "creating this/these droplet(s) will exceed your droplet limit", 0},
		"token":       {fault.CreateKey, fault.Unauthorized, "Unable to authenticate you", 0},
		"throttled":   {fault.CreateDroplet, fault.RateLimited(time.Second), "API Rate limit exceeded", 0},
		"lost answer": {fault.CreateDroplet, fault.AnswerLost, "EOF", 1},
		"vanished":    {fault.GetDroplet, fault.Effect{Status: http.StatusNotFound}, "The resource you were accessing could not be found", 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, faults := impersonate(t)
			_, err := faults.Add(fault.Rule{Match: test.match, Effect: test.effect})
			require.NoError(t, err)
			d := newDriver(t, nil)
			err = d.Create()
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "marker-secret")
			faults.Clear()
			removeMade(t, d)
			require.Len(t, a.Droplets("", ""), test.left, "a server whose id never came back is beyond the driver")
			require.Empty(t, a.Keys())
		})
	}
}

// removeMade removes what the driver knows of; without a server it removes the key and then complains.
func removeMade(t *testing.T, d *digitalocean.Driver) {
	t.Helper()
	if d.DropletID == 0 {
		require.EqualError(t, d.Remove(), "dropletID is invalid because cannot be less than 1")
		return
	}
	require.NoError(t, d.Remove())
}

func TestTheUnmodifiedDriverIsRefusedBeforeItMakesAnything(t *testing.T) {
	a, _ := impersonate(t)
	require.EqualError(t, newDriver(t, map[string]any{"digitalocean-region": "mars1"}).PreCreateCheck(), "digitalocean requires a valid region")
	require.ErrorContains(t, newDriver(t, map[string]any{"digitalocean-access-token": "wrong"}).PreCreateCheck(), "Unable to authenticate you")
	for flag, want := range map[string]string{
		"digitalocean-size": "You specified an invalid size for Droplet creation.", "digitalocean-image": "You specified an invalid image for Droplet creation.",
	} {
		d := newDriver(t, map[string]any{flag: "nonsense"})
		require.ErrorContains(t, d.Create(), want)
		removeMade(t, d)
	}
	require.ErrorContains(t, newDriver(t, map[string]any{"digitalocean-tags": "a b"}).Create(), "Tag name may only contain")
	require.Empty(t, a.Droplets("", ""))
}
