package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

const secret = "the-admin-secret"

// parts are a cloud made of its parts alone; tokens and servers are plain maps.
type parts struct {
	account *account.Account
	faults  *fault.Set
	files   *files.Server
	ledger  *ledger.Ledger
	tokens  *account.Tokens
	servers map[string]server.Info
	left    []string
}

var _ admin.Cloud = (*parts)(nil)

func (p *parts) Account() *account.Account { return p.account }
func (p *parts) Faults() *fault.Set        { return p.faults }
func (p *parts) Files() *files.Server      { return p.files }
func (p *parts) Ledger() *ledger.Ledger    { return p.ledger }
func (p *parts) Leftovers() []string       { return p.left }
func (p *parts) Tokens() []account.Token   { return p.tokens.List() }

func (p *parts) AddToken(name string, readOnly bool) (account.Token, error) {
	token := account.Token{Name: name, Secret: "s-" + name, ReadOnly: readOnly}
	return token, p.tokens.Add(token)
}

func (p *parts) RevokeToken(name string) error  { return p.tokens.Revoke(name) }
func (p *parts) RestoreToken(name string) error { return p.tokens.Restore(name) }
func (p *parts) ExpireToken(name string, at time.Time) error {
	return p.tokens.Expire(name, at)
}

func (p *parts) StartServer(_ context.Context, request server.Request) (server.Info, error) {
	if request.Name == "" {
		return server.Info{}, errors.New("starting server: no name")
	}
	info := server.Info{Name: request.Name, User: request.User, Address: netip.MustParseAddr("198.18.1.1"), Running: true}
	p.servers[request.Name] = info
	return info, nil
}

func (p *parts) StopServer(_ context.Context, name string) error {
	if _, ok := p.servers[name]; !ok {
		return server.ErrNotFound
	}
	delete(p.servers, name)
	return nil
}

func (p *parts) Servers() []server.Info {
	servers := []server.Info{}
	for _, info := range p.servers {
		servers = append(servers, info)
	}
	return servers
}

// serve runs the endpoint for the length of the test.
func serve(t *testing.T) (*parts, string, *admin.Client) {
	t.Helper()
	l, err := ledger.Open("")
	require.NoError(t, err)
	network := &account.Network{Public: netip.MustParsePrefix("198.18.0.0/17"), Private: netip.MustParsePrefix("198.18.128.0/17")}
	a, err := account.New(context.Background(), account.Options{Backend: server.NewInstant(), Ledger: l, Network: network})
	require.NoError(t, err)
	p := &parts{
		account: a, faults: fault.NewSet(), files: files.New(), ledger: l,
		tokens: account.NewTokens(account.Token{Name: "default", Secret: "s-default"}), servers: map[string]server.Info{},
	}
	s := httptest.NewServer(admin.NewHandler(p, secret))
	t.Cleanup(func() { s.Close(); a.Close() })
	return p, s.URL, admin.NewClient(admin.Endpoints{Admin: s.URL, AdminSecret: secret})
}

// ask sends a request as it is and returns status and body.
func ask(t *testing.T, method, url, authorization, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", authorization)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, strings.TrimSpace(string(content))
}

func TestTheSecretIsAskedForEverywhere(t *testing.T) {
	_, url, _ := serve(t)
	for _, authorization := range []string{"", "Bearer ", "Bearer", secret, "Basic " + secret, "bearer " + secret, "Bearer " + secret + "x", "Bearer " + secret[:5]} {
		for _, path := range []string{"/tokens", "/ledger", "/", "/nothing", "/droplets/1/userdata"} {
			status, body := ask(t, "GET", url+path, authorization, "")
			require.Equal(t, http.StatusUnauthorized, status)
			require.Equal(t, "wrong admin secret", body)
		}
	}
	status, _ := ask(t, "GET", url+"/tokens", "Bearer "+secret, "")
	require.Equal(t, http.StatusOK, status)
}

func TestRequestsThatAreRefused(t *testing.T) {
	_, url, _ := serve(t)
	for name, test := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"unknown path":         {"GET", "/nothing", "", 404, "404 page not found"},
		"wrong method":         {"PUT", "/faults", "{}", 405, "Method Not Allowed"},
		"droplet without id":   {"DELETE", "/droplets/x", "", 400, `parsing droplet id: strconv.Atoi: parsing "x": invalid syntax`},
		"no such droplet":      {"DELETE", "/droplets/7", "", 404, "404 not_found: The resource you were accessing could not be found."},
		"user data of none":    {"GET", "/droplets/7/userdata", "", 404, "404 not_found: The resource you were accessing could not be found."},
		"user data of odd":     {"GET", "/droplets/x/userdata", "", 400, `parsing droplet id: strconv.Atoi: parsing "x": invalid syntax`},
		"limit not JSON":       {"PUT", "/limits/droplets", "7", 400, "parsing request: json: cannot unmarshal number into Go value of type admin.limitRequest"},
		"negative limit":       {"PUT", "/limits/droplets", `{"limit":-1}`, 400, "setting droplet limit: -1 is negative"},
		"fault not JSON":       {"POST", "/faults", "x", 400, "parsing request: invalid character 'x' looking for beginning of value"},
		"fault without effect": {"POST", "/faults", `{"match":"GET /v2/x"}`, 400, "checking fault: it has no effect"},
		"misspelt count":       {"POST", "/faults", `{"match":"GET /v2/x","cuont":1,"effect":{"drop":true}}`, 400, `parsing request: json: unknown field "cuont"`},
		"misspelt effect":      {"POST", "/faults", `{"match":"GET /v2/x","effect":{"stauts":500}}`, 400, `parsing request: json: unknown field "stauts"`},
		"no such fault":        {"DELETE", "/faults/x", "", 400, `removing fault: there is none with id "x"`},
		"server not JSON":      {"POST", "/servers", "", 400, "parsing request: EOF"},
		"server without name":  {"POST", "/servers", "{}", 400, "starting server: no name"},
		"no such server":       {"DELETE", "/servers/x", "", 404, "server not found"},
		"token not JSON":       {"POST", "/tokens", "[]", 400, "parsing request: json: cannot unmarshal array into Go value of type admin.tokenRequest"},
		"token without name":   {"POST", "/tokens", "{}", 400, "adding token: it has no name"},
		"taken token":          {"POST", "/tokens", `{"name":"default"}`, 400, `adding token: the name "default" is taken`},
		"revoke none":          {"POST", "/tokens/x/revoke", "", 400, `changing token: no token is named "x"`},
		"restore none":         {"POST", "/tokens/x/restore", "", 400, `changing token: no token is named "x"`},
		"expire none":          {"POST", "/tokens/x/expire", `{"at":"2030-01-01T00:00:00Z"}`, 400, `changing token: no token is named "x"`},
		"expire at odd time":   {"POST", "/tokens/default/expire", `{"at":"noon"}`, 400, `parsing request: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`},
		"expire at no time":    {"POST", "/tokens/default/expire", "{}", 400, "expiring token: it is not said when"},
		"two values":           {"PUT", "/limits/droplets", `{"limit":1}{"limit":2}`, 400, "parsing request: something follows it"},
		"garbage behind":       {"PUT", "/limits/droplets", `{"limit":1}]`, 400, "parsing request: something follows it"},
		"too much":             {"POST", "/servers", `{"userData":"` + strings.Repeat("x", 1<<20) + `"}`, 400, "reading request: it is larger than 1048576 bytes"},
		"token of no one":      {"POST", "/tokens//revoke", "", 404, "404 page not found"},
		"a path upwards":       {"DELETE", "/servers/..%2ftokens", "", 404, "server not found"},
		"file fault unknown":   {"PUT", "/filefaults", `{"name":"x","fault":"explode"}`, 400, `setting download fault: there is no fault "explode"`},
		"file fault not JSON":  {"PUT", "/filefaults", "x", 400, "parsing request: invalid character 'x' looking for beginning of value"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body := ask(t, test.method, url+test.path, "Bearer "+secret, test.body)
			require.Equal(t, test.want, body)
			require.Equal(t, test.status, status)
		})
	}
}

func TestEmptyListsAreListsNotNull(t *testing.T) {
	_, url, _ := serve(t)
	for _, path := range []string{"/ledger", "/records", "/live", "/leftovers", "/droplets", "/faults", "/hits", "/servers", "/files"} {
		status, body := ask(t, "GET", url+path, "Bearer "+secret, "")
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "[]", body, path)
	}
}

func TestFaultsTravelWhole(t *testing.T) {
	p, _, client := serve(t)
	rule := fault.Rule{
		ID: "mine", Match: fault.CreateDroplet, Name: "web-*", Token: "default", Skip: 1, Count: 2, Probability: 0.5, Seed: 7,
		Effect: fault.Effect{Latency: time.Second, Status: 503, ErrorID: "odd", Message: "so odd", RetryAfter: time.Minute, After: true},
	}
	id, err := client.AddFault(t.Context(), rule)
	require.NoError(t, err)
	require.Equal(t, "mine", id)
	got, err := client.Faults(t.Context())
	require.NoError(t, err)
	require.Equal(t, []fault.Status{{Rule: rule}}, got)
	boot := fault.Rule{ID: "a/b c", Match: fault.AnyRequest, Effect: fault.Effect{Boot: &fault.Boot{
		Delay: 1, Never: true, Offline: true, NoAddress: true, VanishAfter: 2,
	}}}
	_, err = client.AddFault(t.Context(), boot)
	require.NoError(t, err)
	p.faults.Apply(fault.Request{Method: "GET", Path: "/v2/x", RequestID: "r-1"})
	hits, err := client.Hits(t.Context())
	require.NoError(t, err)
	require.Equal(t, p.faults.Hits(), hits)
	require.NoError(t, client.ClearFaults(t.Context(), "a/b c"), "an id with odd letters is found")
	require.Len(t, p.faults.List(), 1)
	require.NoError(t, client.ClearFaults(t.Context(), ""))
	require.Empty(t, p.faults.List())
}

func TestTokensTravelWhole(t *testing.T) {
	p, _, client := serve(t)
	ctx := t.Context()
	name := "team a/ü?"
	token, err := client.AddToken(ctx, name, true)
	require.NoError(t, err)
	require.Equal(t, account.Token{Name: name, Secret: "s-" + name, ReadOnly: true}, token)
	require.NoError(t, client.RevokeToken(ctx, name))
	_, ok := p.tokens.Check(token.Secret)
	require.False(t, ok)
	require.NoError(t, client.RestoreToken(ctx, name))
	_, ok = p.tokens.Check(token.Secret)
	require.True(t, ok)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, client.ExpireToken(ctx, name, at))
	tokens, err := client.Tokens(ctx)
	require.NoError(t, err)
	require.Equal(t, p.Tokens(), tokens)
	require.Equal(t, at, tokens[1].Expires)
	_, err = client.AddToken(ctx, "default", false)
	require.EqualError(t, err, `asking local cloud: adding token: the name "default" is taken`)
}

func TestDropletsTravelWhole(t *testing.T) {
	p, _, client := serve(t)
	ctx := t.Context()
	made, _, err := p.account.CreateDroplets(account.Caller{Token: "default", RequestID: "r-1"}, account.DropletRequest{
		Names: []string{"web-1"}, Region: "nyc3", Size: "c-2", Image: "debian-12-x64", UserData: "#cloud-config\n\"ü\"\n", Tags: []string{"blue"},
	}, account.Boot{})
	require.NoError(t, err)
	p.account.AwaitBoot(ctx, made[0].ID, 10*time.Second)
	data, err := client.UserData(ctx, made[0].ID)
	require.NoError(t, err)
	require.Equal(t, "#cloud-config\n\"ü\"\n", data)
	droplets, err := client.Droplets(ctx)
	require.NoError(t, err)
	want, err := json.Marshal(p.account.Droplets("", ""))
	require.NoError(t, err)
	got, err := json.Marshal(droplets)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(got))
	require.NoError(t, client.Vanish(ctx, made[0].ID))
	require.EqualError(t, client.Vanish(ctx, made[0].ID), "asking local cloud: 404 not_found: The resource you were accessing could not be found.")
	entries, err := client.Ledger(ctx)
	require.NoError(t, err)
	require.Equal(t, p.ledger.Entries(), entries)
	records, err := client.Records(ctx)
	require.NoError(t, err)
	require.Equal(t, p.ledger.Records(), records)
	live, err := client.Live(ctx)
	require.NoError(t, err)
	require.Len(t, live, 1, "the tag")
	require.NoError(t, client.SetDropletLimit(ctx, 0))
	require.Equal(t, 0, p.account.Info().DropletLimit)
	p.left = []string{"droplet 7"}
	left, err := client.Leftovers(ctx)
	require.NoError(t, err)
	require.Equal(t, p.left, left)
}

func TestServersTravelWhole(t *testing.T) {
	p, _, client := serve(t)
	ctx := t.Context()
	info, err := client.StartServer(ctx, server.Request{Name: "plain", User: "ops", Keys: []string{"k"}, UserData: "x"})
	require.NoError(t, err)
	require.Equal(t, p.servers["plain"], info)
	servers, err := client.Servers(ctx)
	require.NoError(t, err)
	require.Equal(t, []server.Info{info}, servers)
	require.NoError(t, client.StopServer(ctx, "plain"))
	require.EqualError(t, client.StopServer(ctx, "plain"), "asking local cloud: server not found")
}

func TestFilesWithOddNamesArrive(t *testing.T) {
	p, _, client := serve(t)
	for name, content := range map[string]string{"a": "", "dir/driver_linux-amd64.tar.gz": "content", "100% of?": "x", "ü #1": "y", "a b": "z"} {
		digest, err := client.PutFile(t.Context(), name, strings.NewReader(content))
		require.NoError(t, err)
		require.Regexp(t, "^[0-9a-f]{64}$", digest)
		require.Contains(t, p.files.Names(), name)
		require.NoError(t, client.SetFileFault(t.Context(), name, files.FaultHTML))
	}
	require.Len(t, p.files.Names(), 5)
	require.ErrorContains(t, client.SetFileFault(t.Context(), "a", "nonsense"), "nonsense")
}

func TestDialReadsTheStateDirectory(t *testing.T) {
	dir := t.TempDir()
	want := admin.Endpoints{
		API: "https://127.0.0.1:1", Proxy: "http://127.0.0.1:2", Files: "https://127.0.0.1:3", Admin: "http://127.0.0.1:4",
		AdminSecret: secret, CAFile: dir + "/ca.pem", PID: 7, Backend: "instant",
	}
	content, err := json.Marshal(want)
	require.NoError(t, err)
	path := filepath.Join(dir, admin.EndpointsFile)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	client, err := admin.Dial(dir)
	require.NoError(t, err)
	require.Equal(t, want, client.Endpoints())
}
