package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// What another process may ask of a cloud; the command localcloud asks the same.
func TestClient(t *testing.T) {
	dir := t.TempDir()
	_, err := admin.Dial(dir)
	require.ErrorIs(t, err, admin.ErrNotRunning)
	c, err := cloud.New(cloud.Options{StateDir: dir})
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	client, err := admin.Dial(dir)
	require.NoError(t, err)

	for authorization, body := range map[string]string{"Bearer wrong": "{}", "": "{}", "Bearer " + client.Endpoints.AdminSecret: `{"match":"* /**","cuont":1}`} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.Endpoints.Admin+"/faults", strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Authorization", authorization)
		response, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.GreaterOrEqual(t, response.StatusCode, 400, "a wrong secret, or a misspelt count that would be a fault without end")
	}
	id, err := client.AddFault(t.Context(), fault.Rule{Match: fault.AnyRequest, Effect: fault.Quota})
	require.NoError(t, err)
	require.NoError(t, client.ClearFaults(t.Context(), id))
	require.ErrorContains(t, client.ClearFaults(t.Context(), id), "there is none with the id")
	token, err := client.AddToken(t.Context(), "one", true)
	require.NoError(t, err)
	require.True(t, token.ReadOnly)
	require.NoError(t, client.RevokeToken(t.Context(), "one"))
	digest, err := client.PutFile(t.Context(), "dir/a b", strings.NewReader("content"))
	require.NoError(t, err)
	require.Len(t, digest, 64)
	require.NoError(t, client.SetFileFault(t.Context(), "dir/a b", files.FaultMissing))
	info, err := client.StartServer(t.Context(), server.Request{Name: "plain"})
	require.NoError(t, err)
	servers, err := client.Servers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []server.Info{info}, servers)
	left, err := client.Leftovers(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, client.StopServer(t.Context(), "plain"))
	require.ErrorContains(t, client.StopServer(t.Context(), "plain"), "server not found")
	require.ErrorContains(t, client.Vanish(t.Context(), 7), "could not be found")
	entries, err := client.Ledger(t.Context())
	require.NoError(t, err)
	require.Len(t, entries, 2)
	hits, err := client.Hits(t.Context())
	require.NoError(t, err)
	require.Empty(t, hits)
	require.NoError(t, c.Close())
	_, err = client.Droplets(t.Context())
	require.ErrorIs(t, err, admin.ErrNotRunning)
}
