package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// calls are all methods of the client, by name.
func calls(c *admin.Client) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Ledger":    func(ctx context.Context) error { _, err := c.Ledger(ctx); return err },
		"Records":   func(ctx context.Context) error { _, err := c.Records(ctx); return err },
		"Live":      func(ctx context.Context) error { _, err := c.Live(ctx); return err },
		"Leftovers": func(ctx context.Context) error { _, err := c.Leftovers(ctx); return err },
		"Droplets":  func(ctx context.Context) error { _, err := c.Droplets(ctx); return err },
		"Vanish":    func(ctx context.Context) error { return c.Vanish(ctx, 1) },
		"UserData":  func(ctx context.Context) error { _, err := c.UserData(ctx, 1); return err },
		"Limit":     func(ctx context.Context) error { return c.SetDropletLimit(ctx, 1) },
		"AddFault":  func(ctx context.Context) error { _, err := c.AddFault(ctx, fault.Rule{}); return err },
		"Faults":    func(ctx context.Context) error { _, err := c.Faults(ctx); return err },
		"Hits":      func(ctx context.Context) error { _, err := c.Hits(ctx); return err },
		"Clear":     func(ctx context.Context) error { return c.ClearFaults(ctx, "x") },
		"Start":     func(ctx context.Context) error { _, err := c.StartServer(ctx, server.Request{}); return err },
		"Stop":      func(ctx context.Context) error { return c.StopServer(ctx, "x") },
		"Servers":   func(ctx context.Context) error { _, err := c.Servers(ctx); return err },
		"Tokens":    func(ctx context.Context) error { _, err := c.Tokens(ctx); return err },
		"AddToken":  func(ctx context.Context) error { _, err := c.AddToken(ctx, "x", true); return err },
		"Revoke":    func(ctx context.Context) error { return c.RevokeToken(ctx, "x") },
		"Restore":   func(ctx context.Context) error { return c.RestoreToken(ctx, "x") },
		"Expire":    func(ctx context.Context) error { return c.ExpireToken(ctx, "x", time.Now()) },
		"PutFile":   func(ctx context.Context) error { _, err := c.PutFile(ctx, "x", strings.NewReader("x")); return err },
		"FileFault": func(ctx context.Context) error { return c.SetFileFault(ctx, "x", "") },
	}
}

func TestEveryCallTellsWhatTheCloudSaid(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not on a Wednesday"+strings.Repeat(".", 8192), http.StatusTeapot)
	}))
	defer refusing.Close()
	for name, call := range calls(admin.NewClient(admin.Endpoints{Admin: refusing.URL, AdminSecret: "marker-secret"})) {
		t.Run(name, func(t *testing.T) {
			err := call(t.Context())
			require.ErrorContains(t, err, "asking local cloud: not on a Wednesday...")
			require.LessOrEqual(t, len(err.Error()), 4200, "of a long answer the beginning")
			require.NotContains(t, err.Error(), "marker")
		})
	}
}

func TestEveryCallTellsWhenNothingListens(t *testing.T) {
	for name, call := range calls(admin.NewClient(admin.Endpoints{Admin: "http://127.0.0.1:1", AdminSecret: "marker-secret"})) {
		err := call(t.Context())
		require.EqualError(t, err, "asking local cloud: nothing listens at http://127.0.0.1:1: no local cloud is running here", name)
		require.ErrorIs(t, err, admin.ErrNotRunning)
	}
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	_, _, client := serve(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(client) {
		require.ErrorIs(t, call(over), context.Canceled, name)
	}
}

func TestEveryCallSendsTheSecret(t *testing.T) {
	_, url, _ := serve(t)
	for name, call := range calls(admin.NewClient(admin.Endpoints{Admin: url, AdminSecret: "another"})) {
		require.EqualError(t, call(t.Context()), "asking local cloud: wrong admin secret", name)
	}
}

func TestAnswersThatAreNoJSONAreTold(t *testing.T) {
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer odd.Close()
	client := admin.NewClient(admin.Endpoints{Admin: odd.URL})
	_, err := client.Live(t.Context())
	require.EqualError(t, err, "parsing answer of local cloud: invalid character '<' looking for beginning of value")
	require.NoError(t, client.Vanish(t.Context(), 1), "it wants no answer")
}

// A proxy of the environment is for what drivers send; the endpoint is on this machine.
func TestNoProxyIsAsked(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	_, _, client := serve(t)
	_, err := client.Live(t.Context())
	require.NoError(t, err)
}

func TestConnectionsThatBreakAreTold(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	}()
	_, err = admin.NewClient(admin.Endpoints{Admin: "http://" + listener.Addr().String()}).Live(t.Context())
	require.ErrorContains(t, err, "asking local cloud: ")
	require.NotErrorIs(t, err, admin.ErrNotRunning, "something is there")
	_, err = admin.NewClient(admin.Endpoints{Admin: "http://[::1"}).Live(t.Context())
	require.ErrorContains(t, err, "building request: ")
}

// names are odd, and each of them comes back as it was sent.
func names() []string {
	return []string{"plain", "with space", "a/b", "a%2fb", "ä", "?query", "#fragment", "a&b=c", "..", "~", `back\slash`, "quote\""}
}

func TestOddNamesArriveAsTheyAre(t *testing.T) {
	p, _, client := serve(t)
	for _, name := range names() {
		if name == ".." {
			continue // no path can say it, see below
		}
		t.Run(name, func(t *testing.T) {
			_, err := client.AddToken(t.Context(), name, false)
			require.NoError(t, err)
			require.NoError(t, client.RevokeToken(t.Context(), name))
			require.NoError(t, client.RestoreToken(t.Context(), name))
			info, err := client.StartServer(t.Context(), server.Request{Name: name})
			require.NoError(t, err)
			require.Equal(t, name, info.Name)
			require.NoError(t, client.StopServer(t.Context(), name))
			require.Empty(t, p.servers)
			id, err := client.AddFault(t.Context(), fault.Rule{ID: name, Match: fault.AnyRequest, Effect: fault.Unauthorized()})
			require.NoError(t, err)
			require.NoError(t, client.ClearFaults(t.Context(), id))
		})
	}
	require.Error(t, client.StopServer(t.Context(), ".."))
	require.Error(t, client.RevokeToken(t.Context(), ".."))
}

func TestManyClientsAtOnce(t *testing.T) {
	p, url, _ := serve(t)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			client := admin.NewClient(admin.Endpoints{Admin: url, AdminSecret: secret})
			for round := range 10 {
				id, err := client.AddFault(t.Context(), fault.Rule{ID: fmt.Sprintf("f-%d-%d", worker, round), Match: fault.AnyRequest, Effect: fault.Unauthorized()})
				require.NoError(t, err)
				if round%2 == 0 {
					require.NoError(t, client.ClearFaults(t.Context(), id))
				}
				_, err = client.PutFile(t.Context(), id, bytes.NewReader([]byte(id)))
				require.NoError(t, err)
			}
		})
	}
	group.Wait()
	require.Len(t, p.faults.List(), 40)
	require.Len(t, p.files.Names(), 80)
}

func TestFilesThatBreakOffAreNotServed(t *testing.T) {
	p, _, client := serve(t)
	broken := errors.New("the disk is gone")
	_, err := client.PutFile(t.Context(), "x", &breaking{err: broken})
	require.ErrorIs(t, err, broken)
	require.Empty(t, p.files.Names())
}

// breaking is a file that ends in the middle.
type breaking struct {
	err  error
	read bool
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.read {
		return 0, b.err
	}
	b.read = true
	return copy(p, "the beginning"), nil
}

func TestEndpointsAreRead(t *testing.T) {
	dir := t.TempDir()
	_, err := admin.ReadEndpoints(dir)
	require.EqualError(t, err, "finding local cloud in "+dir+": no local cloud is running here")
	for content, want := range map[string]string{
		"":            "unexpected end of JSON input",
		"{":           "unexpected end of JSON input",
		`{"pid":"7"`:  "unexpected end of JSON input",
		`{"pid":"7"}`: "cannot unmarshal string into Go struct field Endpoints.pid of type int",
		"null trail":  "invalid character 't' after top-level value",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, admin.EndpointsFile), []byte(content), 0o600))
		_, err := admin.ReadEndpoints(dir)
		require.ErrorContains(t, err, "parsing "+filepath.Join(dir, admin.EndpointsFile)+": ")
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, admin.ErrNotRunning)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, admin.EndpointsFile)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, admin.EndpointsFile), 0o700))
	_, err = admin.Dial(dir)
	require.ErrorContains(t, err, "finding local cloud: read ")
}

func TestNoRequestIsTheCloudsFault(t *testing.T) {
	check := func(method, path, body string) {
		_, url, _ := serve(t)
		request, err := http.NewRequestWithContext(t.Context(), method, url+"/"+strings.TrimLeft(path, "/"), strings.NewReader(body))
		if err != nil {
			return
		}
		request.Header.Set("Authorization", "Bearer "+secret)
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return
		}
		require.NoError(t, response.Body.Close())
		require.Less(t, response.StatusCode, http.StatusInternalServerError)
	}
	for _, body := range []string{`{"limit":1}`, `{"match":"* /**","effect":{"drop":true}}`, "", "null", "[]", `{"name":"x"}`} {
		check("POST", "/faults", body)
		check("PUT", "/limits/droplets", body)
		check("POST", "/tokens/default/expire", body)
	}
}
