package vcenter_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/vcenter"
)

// startServers starts a local cloud for guests.
func startServers(t *testing.T) (*cloud.Cloud, *vcenter.Servers) {
	t.Helper()
	c, err := cloud.New(cloud.Options{StateDir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, &vcenter.Servers{Cloud: admin.NewClient(c.Endpoints())}
}

func TestAddressesAreGivenOnce(t *testing.T) {
	guests := &vcenter.Addresses{}
	seen := map[string]bool{}
	for n := range 254 {
		address, err := guests.Start(t.Context(), fmt.Sprintf("vm-%d", n), vcenter.Seed{UserData: fmt.Sprint(n)})
		require.NoError(t, err)
		require.False(t, seen[address.String()])
		seen[address.String()] = true
	}
	require.True(t, seen["198.18.250.1"])
	require.True(t, seen["198.18.250.254"])
	_, err := guests.Start(t.Context(), "one-more", vcenter.Seed{})
	require.EqualError(t, err, "all addresses are given away")
	require.NoError(t, guests.Stop(t.Context(), "vm-1"))
	_, err = guests.Start(t.Context(), "one-more", vcenter.Seed{})
	require.Error(t, err, "addresses are not given twice")
	require.Equal(t, vcenter.Seed{UserData: "7"}, guests.Seed("vm-7"))
	require.Equal(t, vcenter.Seed{}, guests.Seed("one-more"))
	require.NoError(t, guests.Close())
}

func TestServersAreTheLocalClouds(t *testing.T) {
	c, guests := startServers(t)
	require.NoError(t, guests.Close(), "there are none")
	first, err := guests.Start(t.Context(), "one", vcenter.Seed{UserData: "#!/bin/sh\n"})
	require.NoError(t, err)
	second, err := guests.Start(t.Context(), "two", vcenter.Seed{})
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.Len(t, c.Servers(), 2)
	require.Equal(t, first, c.Servers()[0].Address)
	_, err = guests.Start(t.Context(), "one", vcenter.Seed{})
	require.ErrorContains(t, err, "the name one is taken")
	_, err = guests.Start(t.Context(), "Not A Host", vcenter.Seed{})
	require.ErrorContains(t, err, `"Not A Host" is no host name`)

	require.NoError(t, guests.Stop(t.Context(), "one"))
	require.NoError(t, guests.Stop(t.Context(), "one"), "gone already")
	require.NoError(t, guests.Stop(t.Context(), "never-seen"))
	require.Len(t, c.Servers(), 1)
	require.NoError(t, guests.Close())
	c.AssertNothingLeft(t)
}

func TestServersOfOthersAreLeftAlone(t *testing.T) {
	c, guests := startServers(t)
	_, err := c.StartServer(t.Context(), cloud.ServerOptions{Name: "theirs"})
	require.NoError(t, err)
	require.NoError(t, guests.Stop(t.Context(), "theirs"))
	require.NoError(t, guests.Close())
	require.Len(t, c.Servers(), 1)
}

func TestServerThatIsGoneIsNoError(t *testing.T) {
	c, guests := startServers(t)
	_, err := guests.Start(t.Context(), "one", vcenter.Seed{})
	require.NoError(t, err)
	require.NoError(t, c.StopServer(t.Context(), "one"), "by someone else")
	require.NoError(t, guests.Stop(t.Context(), "one"))
}

// A server that could not be removed must not be forgotten: closing tries again.
func TestServerThatCannotBeRemovedStaysKnown(t *testing.T) {
	c, guests := startServers(t)
	_, err := guests.Start(t.Context(), "one", vcenter.Seed{})
	require.NoError(t, err)
	working := guests.Cloud
	guests.Cloud = admin.NewClient(admin.Endpoints{Admin: "http://127.0.0.1:1"})
	require.ErrorIs(t, guests.Stop(t.Context(), "one"), admin.ErrNotRunning)
	require.ErrorIs(t, guests.Close(), admin.ErrNotRunning)
	guests.Cloud = working
	require.NoError(t, guests.Close())
	c.AssertNothingLeft(t)
}

func TestMachinesOfTheDriverAreServersOfTheCloud(t *testing.T) {
	linkProgram(t)
	t.Chdir(t.TempDir())
	c, guests := startServers(t)
	s := start(t, guests)
	kept, gone := newDriver(t, s, "kept", nil), newDriver(t, s, "gone", nil)
	require.NoError(t, kept.Create())
	require.NoError(t, gone.Create())
	address, err := gone.GetIP()
	require.NoError(t, err)
	require.Equal(t, address, c.Servers()[0].Address.String())
	require.NoError(t, gone.Remove())
	require.Eventually(t, func() bool { return len(c.Servers()) == 1 }, patience, tick)
	require.NoError(t, s.Close())
	c.AssertNothingLeft(t)
}

func TestEndpointIsTakenAwayByItsOwner(t *testing.T) {
	dir := t.TempDir()
	mine, other := vcenter.Endpoint{Address: "a:1", Password: "marker"}, vcenter.Endpoint{Address: "b:2"}
	require.NoError(t, vcenter.RemoveEndpoint(dir, mine), "there is none")
	require.NoError(t, vcenter.WriteEndpoint(dir, other))
	require.NoError(t, vcenter.RemoveEndpoint(dir, mine))
	found, err := vcenter.ReadEndpoint(dir)
	require.NoError(t, err)
	require.Equal(t, other, found, "it is another's by now")
	require.NoError(t, vcenter.RemoveEndpoint(dir, other))
	_, err = vcenter.ReadEndpoint(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "finding a running simulator: ")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "endpoint.json"), []byte(`{"address":7}`), 0o600))
	require.ErrorContains(t, vcenter.RemoveEndpoint(dir, mine), "reading the endpoint: ")
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, vcenter.WriteEndpoint(file, mine), "making the state directory: ")
	blocked := filepath.Join(dir, "blocked")
	require.NoError(t, os.MkdirAll(filepath.Join(blocked, "endpoint.json.partial"), 0o700))
	err = vcenter.WriteEndpoint(blocked, mine)
	require.ErrorContains(t, err, "writing the endpoint: ")
	require.NotContains(t, err.Error(), "marker")
}
