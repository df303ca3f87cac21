package cloud_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
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
	c, client := start(t, cloud.Options{BootDelay: 20 * time.Millisecond})
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
	require.Equal(t, "new", created.Status)
	require.Empty(t, created.Networks.V4)
	require.Len(t, response.Links.Actions, 1)

	droplet := active(t, client, created.ID)
	public, err := droplet.PublicIPv4()
	require.NoError(t, err)
	require.Regexp(t, `^198\.18\.1\.\d+$`, public)
	private, err := droplet.PrivateIPv4()
	require.NoError(t, err)
	require.Regexp(t, `^198\.18\.129\.\d+$`, private)
	v6, err := droplet.PublicIPv6()
	require.NoError(t, err)
	require.Contains(t, v6, "2001:db8:")
	require.Equal(t, []string{"drover:uid-1", "web"}, droplet.Tags)
	require.Equal(t, "s-1vcpu-1gb", droplet.Size.Slug)
	data, err := c.Account().UserData(created.ID)
	require.NoError(t, err)
	require.Equal(t, "#cloud-config\n", data)

	action, _, err := client.Actions.Get(ctx, response.Links.Actions[0].ID)
	require.NoError(t, err)
	require.Equal(t, godo.ActionCompleted, action.Status)

	_, err = client.Droplets.Delete(ctx, created.ID)
	require.NoError(t, err)
	_, response, err = client.Droplets.Get(ctx, created.ID)
	require.Error(t, err)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	_, err = client.Keys.DeleteByID(ctx, key.ID)
	require.NoError(t, err)
	c.AssertNothingLeft(t)

	records := c.Ledger().Records("droplet")
	require.Len(t, records, 1)
	require.Equal(t, cloud.DefaultToken, records[0].Token)
	require.NotEmpty(t, records[0].RequestID)
	require.NotNil(t, records[0].Removed)
}

func TestFilesAreServedDirectlyAndThroughTheProxy(t *testing.T) {
	c, _ := start(t, cloud.Options{StateDir: t.TempDir()})
	c.Files().Put("driver.tar.gz", []byte("content"))
	content, err := os.ReadFile(c.CAFile())
	require.NoError(t, err)
	require.Equal(t, c.CAPEM(), content)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(content))
	proxyURL, err := url.Parse(c.Endpoints().Proxy)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		url   string
		proxy func(*http.Request) (*url.URL, error)
	}{
		"directly":      {c.Endpoints().Files, nil},
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

func TestRestartKeepsTheAccount(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	first, err := cloud.New(cloud.Options{StateDir: dir, Keep: true})
	require.NoError(t, err)
	require.NoError(t, first.Start(ctx))
	client := first.Client(first.Token())
	key, _, err := client.Keys.Create(ctx, &godo.KeyCreateRequest{Name: "k", PublicKey: publicKey(t)})
	require.NoError(t, err)
	gone, _, err := client.Droplets.Create(ctx, request("gone"))
	require.NoError(t, err)
	_, err = client.Droplets.Delete(ctx, gone.ID)
	require.NoError(t, err)
	ask := request("kept")
	ask.Tags = []string{"blue"}
	kept, _, err := client.Droplets.Create(ctx, ask)
	require.NoError(t, err)
	before := active(t, client, kept.ID)
	_, err = cloud.New(cloud.Options{StateDir: dir})
	require.ErrorIs(t, err, cloud.ErrRunning)
	token := first.Token()
	require.NoError(t, first.Close())

	second, client := start(t, cloud.Options{StateDir: dir})
	require.Equal(t, token, second.Token())
	droplets, _, err := client.Droplets.ListByTag(ctx, "blue", nil)
	require.NoError(t, err)
	require.Len(t, droplets, 1)
	require.Equal(t, *before, droplets[0])
	_, _, err = client.Keys.GetByFingerprint(ctx, key.Fingerprint)
	require.NoError(t, err)
	next, _, err := client.Droplets.Create(ctx, request("next"))
	require.NoError(t, err)
	require.Greater(t, next.ID, kept.ID)
	require.Len(t, second.Leftovers(), 3)
}

// TestOptionsReachTheAPI: what the API makes of them is tried in package rest, and what the account makes of them there.
func TestOptionsReachTheAPI(t *testing.T) {
	c, client := start(t, cloud.Options{DropletLimit: 1, RateLimit: 3, Tokens: []account.Token{{Name: "second", Secret: "dop_v1_second"}}})
	_, _, err := client.Droplets.Create(t.Context(), request("web-1"))
	require.NoError(t, err)
	_, response, err := client.Droplets.Create(t.Context(), request("web-2"))
	require.ErrorContains(t, err, "exceed your droplet limit")
	require.Equal(t, 3, response.Limit)
	_, _, err = c.Client("dop_v1_second").Account.Get(t.Context())
	require.NoError(t, err)
	_, err = c.AddToken("second", false)
	require.EqualError(t, err, `adding token: the name "second" is taken`)
	require.NoError(t, c.RevokeToken("second"))
	_, _, err = c.Client("dop_v1_second").Account.Get(t.Context())
	require.ErrorContains(t, err, "Unable to authenticate you")
}

func TestThousandDroplets(t *testing.T) {
	c, client := start(t, cloud.Options{BootDelay: 10 * time.Millisecond})
	ctx := t.Context()
	for range 100 {
		ask := &godo.DropletMultiCreateRequest{Region: "nyc3", Size: "s-1vcpu-1gb", Image: godo.DropletCreateImage{Slug: "debian-12-x64"}, Tags: []string{"load"}}
		for _, digit := range "0123456789" {
			ask.Names = append(ask.Names, "load-"+string(digit))
		}
		_, _, err := client.Droplets.CreateMultiple(ctx, ask)
		require.NoError(t, err)
	}
	addresses := map[string]bool{}
	for _, record := range c.Live("droplet") {
		addresses[string(record.Data)] = true
	}
	require.Len(t, addresses, 1000)
	_, err := client.Droplets.DeleteByTag(ctx, "load")
	require.NoError(t, err)
	c.AssertNothingLeft(t)
}
