package vcenter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/vcenter"
)

// startServers starts a local cloud for guests.
func startServers(t *testing.T) (*cloud.Cloud, *vcenter.Servers) {
	t.Helper()
	dir := t.TempDir()
	c, err := cloud.New(cloud.Options{StateDir: dir})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, &vcenter.Servers{CloudDir: dir}
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
	require.ErrorContains(t, err, `"Not A Host" is not a valid host name`)

	require.NoError(t, guests.Stop(t.Context(), "one"))
	require.NoError(t, guests.Stop(t.Context(), "one"), "gone already")
	require.NoError(t, guests.Stop(t.Context(), "never-seen"))
	require.Len(t, c.Servers(), 1)
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
