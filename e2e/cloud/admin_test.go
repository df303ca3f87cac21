package cloud_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
)

func TestAdminClientSteersTheCloud(t *testing.T) {
	dir := t.TempDir()
	c, client := start(t, cloud.Options{StateDir: dir})
	ctx := t.Context()
	steer, err := admin.Dial(dir)
	require.NoError(t, err)

	id, err := steer.AddFault(ctx, fault.Rule{Match: fault.CreateDroplet, Count: 1, Effect: fault.Quota()})
	require.NoError(t, err)
	_, err = steer.AddFault(ctx, fault.Rule{Match: "nonsense", Effect: fault.Quota()})
	require.ErrorContains(t, err, "checking fault")
	_, _, err = client.Droplets.Create(ctx, request("web-1"))
	require.Error(t, err)
	hits, err := steer.Hits(ctx)
	require.NoError(t, err)
	require.Len(t, hits, 1)
	require.Equal(t, id, hits[0].Rule)
	faults, err := steer.Faults(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, faults[0].Applied)
	require.NoError(t, steer.ClearFaults(ctx, id))
	require.Error(t, steer.ClearFaults(ctx, id))
	require.NoError(t, steer.ClearFaults(ctx, ""))

	ask := request("web-1")
	ask.UserData = "secret script"
	created, _, err := client.Droplets.Create(ctx, ask)
	require.NoError(t, err)
	active(t, client, created.ID)
	data, err := steer.UserData(ctx, created.ID)
	require.NoError(t, err)
	require.Equal(t, "secret script", data)
	droplets, err := steer.Droplets(ctx)
	require.NoError(t, err)
	require.Len(t, droplets, 1)
	left, err := steer.Leftovers(ctx)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, steer.Vanish(ctx, created.ID))
	live, err := steer.Live(ctx)
	require.NoError(t, err)
	require.Empty(t, live)
	records, err := steer.Records(ctx)
	require.NoError(t, err)
	require.Equal(t, "vanished", records[0].Cause)
	entries, err := steer.Ledger(ctx)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	require.NoError(t, steer.SetDropletLimit(ctx, 1))
	require.Equal(t, 1, c.Account().Info().DropletLimit)
}

func TestAdminClientTokensServersFiles(t *testing.T) {
	dir := t.TempDir()
	c, _ := start(t, cloud.Options{StateDir: dir})
	ctx := t.Context()
	steer, err := admin.Dial(dir)
	require.NoError(t, err)

	token, err := steer.AddToken(ctx, "second", false)
	require.NoError(t, err)
	require.NoError(t, steer.RevokeToken(ctx, "second"))
	_, _, err = c.Client(token.Secret).Account.Get(ctx)
	require.Error(t, err)
	require.NoError(t, steer.RestoreToken(ctx, "second"))
	_, _, err = c.Client(token.Secret).Account.Get(ctx)
	require.NoError(t, err)
	require.NoError(t, steer.ExpireToken(ctx, "second", time.Now()))
	tokens, err := steer.Tokens(ctx)
	require.NoError(t, err)
	require.Len(t, tokens, 2)

	info, err := steer.StartServer(ctx, cloud.ServerOptions{Name: "plain", User: "ops", Keys: []string{publicKey(t)}})
	require.NoError(t, err)
	require.True(t, info.Running)
	_, err = steer.StartServer(ctx, cloud.ServerOptions{Name: "plain"})
	require.ErrorContains(t, err, "the name plain is taken")
	_, err = steer.StartServer(ctx, cloud.ServerOptions{Name: "../x"})
	require.ErrorContains(t, err, "no host name")
	servers, err := steer.Servers(ctx)
	require.NoError(t, err)
	require.Len(t, servers, 1)
	require.NoError(t, steer.StopServer(ctx, "plain"))
	require.ErrorContains(t, steer.StopServer(ctx, "plain"), "not found")

	digest, err := steer.PutFile(ctx, "a/driver", strings.NewReader("content"))
	require.NoError(t, err)
	require.Len(t, digest, 64)
	require.Equal(t, []string{"a/driver"}, c.Files().Names())
	require.NoError(t, steer.SetFileFault(ctx, "a/driver", files.FaultHTML))
	require.Error(t, steer.SetFileFault(ctx, "a/driver", "nonsense"))
}

func TestAdminAsksForItsSecret(t *testing.T) {
	c, _ := start(t, cloud.Options{StateDir: t.TempDir()})
	response, err := http.Get(c.AdminURL() + "/tokens")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
}

func TestAdminFindsNoCloud(t *testing.T) {
	_, err := admin.Dial(t.TempDir())
	require.ErrorIs(t, err, admin.ErrNotRunning)
}

func TestCleanRemovesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir() + "/state"
	c, err := cloud.New(cloud.Options{StateDir: dir})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	require.ErrorIs(t, cloud.Clean(t.Context(), dir), cloud.ErrRunning)
	require.NoError(t, c.Close())
	require.NoError(t, cloud.Clean(t.Context(), dir))
	require.NoDirExists(t, dir)
}
