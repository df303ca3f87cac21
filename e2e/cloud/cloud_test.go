package cloud_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// start runs an instant cloud for the length of the test.
func start(t *testing.T, opts cloud.Options) (*cloud.Cloud, *godo.Client) {
	t.Helper()
	c, err := cloud.New(opts)
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, c.Client(c.Token())
}

func publicKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	key, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	return string(ssh.MarshalAuthorizedKey(key))
}

func request(name string) *godo.DropletCreateRequest {
	return &godo.DropletCreateRequest{
		Name: name, Region: "nyc3", Size: "s-1vcpu-1gb", Image: godo.DropletCreateImage{Slug: "ubuntu-20-04-x64"},
	}
}

// active waits until the droplet is active; boots go on beside the requests.
func active(t *testing.T, client *godo.Client, id int) *godo.Droplet {
	t.Helper()
	var droplet *godo.Droplet
	require.Eventually(t, func() bool {
		var err error
		droplet, _, err = client.Droplets.Get(t.Context(), id)
		require.NoError(t, err)
		return droplet.Status == "active"
	}, time.Minute, 5*time.Millisecond)
	return droplet
}

func TestDropletLifeThroughTheProxy(t *testing.T) {
	c, client := start(t, cloud.Options{})
	ctx := t.Context()
	key, _, err := client.Keys.Create(ctx, &godo.KeyCreateRequest{Name: "k", PublicKey: publicKey(t)})
	require.NoError(t, err)

	ask := request("web-1")
	ask.SSHKeys = []godo.DropletCreateSSHKey{{ID: key.ID}}
	ask.Tags = []string{"drover:uid-1", "web"}
	ask.PrivateNetworking, ask.IPv6, ask.UserData = true, true, "#cloud-config\n"
	created, response, err := client.Droplets.Create(ctx, ask)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, response.StatusCode)

	droplet := active(t, client, created.ID)
	public, err := droplet.PublicIPv4()
	require.NoError(t, err)
	require.Regexp(t, `^198\.18\.1\.\d+$`, public)
	private, err := droplet.PrivateIPv4()
	require.NoError(t, err)
	require.Regexp(t, `^198\.18\.65\.\d+$`, private)
	v6, err := droplet.PublicIPv6()
	require.NoError(t, err)
	require.Contains(t, v6, "2001:db8:")
	require.Equal(t, []string{"drover:uid-1", "web"}, droplet.Tags)
	require.Equal(t, "s-1vcpu-1gb", droplet.Size.Slug)
	data, err := c.Account.UserData(created.ID)
	require.NoError(t, err)
	require.Equal(t, "#cloud-config\n", data)

	_, err = client.Droplets.Delete(ctx, created.ID)
	require.NoError(t, err)
	_, response, err = client.Droplets.Get(ctx, created.ID)
	require.Error(t, err)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	_, err = client.Keys.DeleteByID(ctx, key.ID)
	require.NoError(t, err)
	c.AssertNothingLeft(t)

	records := c.Ledger.Records("droplet")
	require.Len(t, records, 1)
	require.Equal(t, cloud.DefaultToken, records[0].Token)
	require.NotEmpty(t, records[0].RequestID)
	require.NotNil(t, records[0].Removed)
}

func TestFilesAreServedDirectlyAndThroughTheProxy(t *testing.T) {
	c, _ := start(t, cloud.Options{StateDir: t.TempDir()})
	c.Files.Put("driver.tar.gz", []byte("content"))
	content, err := os.ReadFile(c.CAFile())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(content))
	proxyURL, err := url.Parse(c.Endpoints.Proxy)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		url   string
		proxy func(*http.Request) (*url.URL, error)
	}{
		"directly":      {c.Endpoints.Files, nil},
		"through proxy": {"https://" + cloud.FilesHost, http.ProxyURL(proxyURL)},
	} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: &http.Transport{
				Proxy: test.proxy, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			}}
			response, err := client.Get(test.url + "/driver.tar.gz")
			require.NoError(t, err)
			defer func() { require.NoError(t, response.Body.Close()) }()
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, "content", string(body))
		})
	}
}

// One process at a time has a state directory; what Clean removes is a cloud's and nothing else.
func TestStateDirectory(t *testing.T) {
	dir := t.TempDir()
	c, err := cloud.New(cloud.Options{StateDir: dir, Tokens: map[string]string{"given": "dop_v1_given"}})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	_, err = cloud.New(cloud.Options{StateDir: dir})
	require.ErrorIs(t, err, cloud.ErrRunning)
	require.ErrorIs(t, cloud.Clean(t.Context(), dir), cloud.ErrRunning)
	_, _, err = c.Client("dop_v1_given").Account.Get(t.Context())
	require.NoError(t, err)
	added, err := c.Tokens.Add("second")
	require.NoError(t, err)
	_, err = c.Tokens.Add("second")
	require.EqualError(t, err, `adding token: the name "second" is taken`)
	require.NoError(t, c.Tokens.Revoke("second"))
	_, _, err = c.Client(added).Account.Get(t.Context())
	require.ErrorContains(t, err, "Unable to authenticate you")
	require.FileExists(t, filepath.Join(dir, "endpoints.json"))
	c.Endpoints.AdminSecret = "wrong"
	content, err := json.Marshal(c.Endpoints)
	require.NoError(t, err)
	stranger := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(stranger, "endpoints.json"), content, 0o600))
	_, err = cloud.Ask(t.Context(), stranger, "ls")
	require.ErrorContains(t, err, "wrong admin secret")
	require.NoError(t, os.Remove(filepath.Join(stranger, "endpoints.json")))
	require.NoError(t, c.Close())
	require.NoFileExists(t, filepath.Join(dir, "endpoints.json"))

	require.NoError(t, os.WriteFile(filepath.Join(stranger, "precious"), nil, 0o600))
	require.ErrorContains(t, cloud.Clean(t.Context(), stranger), "is not the state directory of a local cloud")
	require.NoError(t, cloud.Clean(t.Context(), filepath.Join(stranger, "none")))
	_, err = cloud.New(cloud.Options{Backend: cloud.BackendNspawn})
	require.ErrorContains(t, err, "the nspawn backend needs a state and a root file system directory")
}

func TestServersOutsideOfTheAPI(t *testing.T) {
	c, _ := start(t, cloud.Options{})
	for want, bad := range map[string]server.Request{
		`"-x" is not a valid host name`:                     {Name: "-x"},
		`"a b" is not a valid user name`:                    {Name: "x", User: "a b"},
		"key 1 is not a public key in authorized_keys form": {Name: "x", Keys: []string{"marker"}},
	} {
		_, err := c.StartServer(t.Context(), bad)
		require.EqualError(t, err, "starting server: "+want)
	}
	info, err := c.StartServer(t.Context(), server.Request{Name: "plain", User: "ops", Keys: []string{publicKey(t)}})
	require.NoError(t, err)
	require.Equal(t, []server.Info{info}, c.Servers())
	require.True(t, info.Running)
	_, err = c.StartServer(t.Context(), server.Request{Name: "plain"})
	require.EqualError(t, err, "starting server: the name plain is taken")
	require.Len(t, c.Leftovers(), 1)
	require.NoError(t, c.StopServer(t.Context(), "plain"))
	require.ErrorIs(t, c.StopServer(t.Context(), "plain"), server.ErrNotFound)
	c.AssertNothingLeft(t)
}
