package rest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/rest"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// api is the API on a TLS server with the parts behind it.
type api struct {
	url     string
	http    *http.Client
	client  *godo.Client
	account *account.Account
	faults  *fault.Set
	ledger  *ledger.Ledger
	tokens  *account.Tokens
}

// serve runs the API for the length of the test. Its tokens are "secret"
// and "revoked", named as their secrets.
func serve(tb testing.TB, opts rest.Options) *api {
	tb.Helper()
	l := ledger.New()
	a := account.New(context.Background(), account.Options{
		Backend: server.NewInstant(), Ledger: l,
		Network: &account.Network{
			Public: netip.MustParsePrefix("198.18.0.0/17"), Private: netip.MustParsePrefix("198.18.128.0/17"),
			Gateway: netip.MustParseAddr("198.18.0.1"),
		},
	})
	opts.Account, opts.Ledger, opts.Faults = a, l, &fault.Set{}
	opts.Tokens = account.NewTokens(map[string]string{"secret": "secret", "revoked": "revoked"})
	require.NoError(tb, opts.Tokens.Revoke("revoked"))
	s := httptest.NewTLSServer(rest.NewHandler(opts))
	tb.Cleanup(func() { s.Close(); a.Close() })
	served := &api{url: s.URL, http: s.Client(), account: a, faults: opts.Faults, ledger: l, tokens: opts.Tokens}
	served.client = served.as(tb, "secret")
	return served
}

// as returns a client with another token.
func (a *api) as(tb testing.TB, secret string) *godo.Client {
	tb.Helper()
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: secret})
	client, err := godo.New(&http.Client{Transport: &oauth2.Transport{Source: source, Base: a.http.Transport}}, godo.SetBaseURL(a.url))
	require.NoError(tb, err)
	return client
}

// answer is an HTTP answer as a client without godo sees it.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request as it is, with the good token.
func (a *api) ask(tb testing.TB, method, path, body string, header ...string) answer {
	tb.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, a.url+path, strings.NewReader(body))
	require.NoError(tb, err)
	request.Header.Set("Authorization", "Bearer secret")
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := a.http.Do(request)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, response.Body.Close()) }()
	content, err := io.ReadAll(response.Body)
	require.NoError(tb, err)
	return answer{response.StatusCode, response.Header, string(content)}
}

// requireError checks an error's whole body; its request id is the header's.
func (got answer) requireError(t *testing.T, status int, id, message string) {
	t.Helper()
	require.Equal(t, status, got.status, got.body)
	require.Equal(t, "application/json; charset=utf-8", got.header.Get("Content-Type"))
	requestID := got.header.Get("X-Request-Id")
	require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, requestID)
	want, err := json.Marshal(map[string]string{"id": id, "message": message, "request_id": requestID})
	require.NoError(t, err)
	require.JSONEq(t, string(want), got.body)
}

func droplet(name string) *godo.DropletCreateRequest {
	return &godo.DropletCreateRequest{
		Name: name, Region: "nyc3", Size: "s-1vcpu-1gb", Image: godo.DropletCreateImage{Slug: "debian-12-x64"},
	}
}

const (
	notFound = "The resource you were accessing could not be found."
	badJSON  = "The request body is not valid JSON of the expected shape."
)

// refusedRequests are requests that a client without godo may send.
func refusedRequests() map[string]struct {
	method, path, body string
	status             int
	id, message        string
} {
	const key = `{"name":"k","public_key":"x"}`
	type refused = struct {
		method, path, body string
		status             int
		id, message        string
	}
	return map[string]refused{
		"root":               {"GET", "/", "", 404, "not_found", notFound},
		"other version":      {"GET", "/v1/droplets", "", 404, "not_found", notFound},
		"other product":      {"POST", "/v2/volumes", "{}", 404, "not_found", notFound},
		"wrong method":       {"PATCH", "/v2/droplets", "{}", 404, "not_found", notFound},
		"no such droplet":    {"GET", "/v2/droplets/7", "", 404, "not_found", notFound},
		"odd droplet id":     {"GET", "/v2/droplets/web-1", "", 404, "not_found", notFound},
		"huge droplet id":    {"GET", "/v2/droplets/99999999999999999999", "", 404, "not_found", notFound},
		"delete odd id":      {"DELETE", "/v2/droplets/x", "", 404, "not_found", notFound},
		"no such tag":        {"GET", "/v2/tags/blue", "", 404, "not_found", notFound},
		"no body":            {"POST", "/v2/droplets", "", 400, "bad_request", badJSON},
		"half a body":        {"POST", "/v2/droplets", `{"name":"a"`, 400, "bad_request", badJSON},
		"not JSON":           {"POST", "/v2/droplets", "name=a", 400, "bad_request", badJSON},
		"a list":             {"POST", "/v2/account/keys", "[]", 400, "bad_request", badJSON},
		"a number as name":   {"POST", "/v2/droplets", `{"name":7}`, 400, "bad_request", badJSON},
		"an object as image": {"POST", "/v2/droplets", `{"name":"a","image":{}}`, 400, "bad_request", badJSON},
		"true as key":        {"POST", "/v2/droplets", `{"name":"a","ssh_keys":[true]}`, 400, "bad_request", badJSON},
		"tag not JSON":       {"POST", "/v2/tags", "x", 400, "bad_request", badJSON},
		"empty object":       {"POST", "/v2/droplets", "{}", 422, "unprocessable_entity", "Name can't be blank"},
		"null image":         {"POST", "/v2/droplets", `{"name":"a","region":"nyc3","size":"c-2","image":null}`, 422, "unprocessable_entity", "You specified an invalid image for Droplet creation."},
		"bad key":            {"POST", "/v2/account/keys", key, 422, "unprocessable_entity", "Key invalid, key should be of the format `ssh-<type> <key data> <optional comment>`"},
		"blank tag":          {"POST", "/v2/tags", `{"name":""}`, 422, "unprocessable_entity", "Tag name may only contain letters, numbers, colons, dashes, and underscores"},
		"too large":          {"POST", "/v2/droplets", `{"user_data":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "request_entity_too_large", "The request is too large."},
	}
}

func TestErrorsHaveTheAPIsBody(t *testing.T) {
	a := serve(t, rest.Options{})
	for name, test := range refusedRequests() {
		t.Run(name, func(t *testing.T) {
			a.ask(t, test.method, test.path, test.body).requireError(t, test.status, test.id, test.message)
		})
	}
	require.Empty(t, a.ledger.Entries())
}

func TestOnlyGoodTokensAreServed(t *testing.T) {
	a := serve(t, rest.Options{})
	for name, test := range map[string]struct {
		authorization, method string
		status                int
		id, message           string
	}{
		"none":            {"", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"unknown":         {"Bearer nonsense", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"no secret":       {"Bearer ", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"only the secret": {"secret", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"basic":           {"Basic secret", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"revoked":         {"Bearer revoked", "GET", 401, "Unauthorized", "Unable to authenticate you"},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.ask(t, test.method, "/v2/droplets?tag_name=x", "{}", "Authorization", test.authorization)
			got.requireError(t, test.status, test.id, test.message)
			require.NotContains(t, got.body, "secret")
		})
	}
	for _, authorization := range []string{"Bearer secret", "bearer secret", "Bearer  secret"} {
		require.Equal(t, 200, a.ask(t, "GET", "/v2/droplets", "", "Authorization", authorization).status, authorization)
		require.Equal(t, 200, a.ask(t, "HEAD", "/v2/droplets", "", "Authorization", authorization).status, authorization)
	}
}

func TestEmptyListsAreListsNotNull(t *testing.T) {
	a := serve(t, rest.Options{})
	for path, field := range map[string]string{
		"/v2/account/keys": "ssh_keys", "/v2/droplets": "droplets", "/v2/droplets?type=gpus": "droplets",
		"/v2/droplets?name=x": "droplets", "/v2/droplets?tag_name=x": "droplets",
	} {
		require.JSONEq(t, `{"`+field+`":[],"links":{},"meta":{"total":0}}`, a.ask(t, "GET", path, "").body, path)
	}
}

// FuzzAPI sends anything to any path: no answer is a 5xx or without a body that clients can read.
func FuzzAPI(f *testing.F) {
	f.Add("POST", "/v2/droplets", []byte(`{"name":"a","region":"nyc3","size":"c-2","image":139080908}`))
	f.Add("GET", "/v2/droplets?page=2&per_page=0&tag_name=%zz", []byte(nil))
	f.Add("DELETE", "/v2/account/keys/", []byte(`x`))
	l := ledger.New()
	network := &account.Network{Public: netip.MustParsePrefix("198.18.0.0/17"), Private: netip.MustParsePrefix("198.18.128.0/17")}
	a := account.New(context.Background(), account.Options{Backend: server.NewInstant(), Ledger: l, Network: network})
	f.Cleanup(a.Close)
	handler := rest.NewHandler(rest.Options{
		Account: a, Ledger: l, Faults: &fault.Set{}, Tokens: account.NewTokens(map[string]string{"t": "t"}),
	})
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		target, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		request := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(string(body)))
		request.Method, request.URL = method, target
		request.Header.Set("Authorization", "Bearer t")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		require.Less(t, recorder.Code, 500)
		if recorder.Code >= 400 {
			require.True(t, json.Valid(recorder.Body.Bytes()), recorder.Body.String())
		}
	})
}

func TestGodoWalksEveryPageOnce(t *testing.T) {
	a := serve(t, rest.Options{})
	for i := range 23 {
		_, _, err := a.client.Droplets.Create(t.Context(), droplet("web-"+strconv.Itoa(i)))
		require.NoError(t, err)
	}
	for _, perPage := range []int{0, 1, 7, 22, 23, 24, 500} {
		seen := map[int]bool{}
		opts := &godo.ListOptions{PerPage: perPage}
		for {
			droplets, response, err := a.client.Droplets.List(t.Context(), opts)
			require.NoError(t, err)
			for _, droplet := range droplets {
				require.False(t, seen[droplet.ID])
				seen[droplet.ID] = true
			}
			if response.Links.IsLastPage() {
				break
			}
			current, err := response.Links.CurrentPage()
			require.NoError(t, err)
			opts.Page = current + 1
		}
		require.Len(t, seen, 23, "per page: %d", perPage)
	}
}

// What Drover asks for: keys and servers that carry a tag go, and with the tag no server loses more than the tag.
func TestTagsAndKeys(t *testing.T) {
	a := serve(t, rest.Options{})
	key, _, err := a.client.Keys.Create(t.Context(), &godo.KeyCreateRequest{Name: "k", PublicKey: oneKey})
	require.NoError(t, err)
	_, _, err = a.client.Keys.Create(t.Context(), &godo.KeyCreateRequest{Name: "again", PublicKey: oneKey})
	require.ErrorContains(t, err, "SSH Key is already in use on your account")
	found, _, err := a.client.Keys.GetByFingerprint(t.Context(), key.Fingerprint)
	require.NoError(t, err)
	require.Equal(t, key.ID, found.ID)
	ask := droplet("web")
	ask.Tags = []string{"drover:b", "drover:a"}
	made, _, err := a.client.Droplets.Create(t.Context(), ask)
	require.NoError(t, err)
	tagged, _, err := a.client.Droplets.ListByTag(t.Context(), "drover:a", nil)
	require.NoError(t, err)
	require.Len(t, tagged, 1)
	tag, _, err := a.client.Tags.Get(t.Context(), "drover:a")
	require.NoError(t, err)
	require.Equal(t, 1, tag.Resources.Droplets.Count)
	_, err = a.client.Tags.Delete(t.Context(), "drover:a")
	require.NoError(t, err)
	left, _, err := a.client.Droplets.Get(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"drover:b"}, left.Tags)
	_, err = a.client.Keys.DeleteByID(t.Context(), key.ID)
	require.NoError(t, err)
	_, err = a.client.Droplets.Delete(t.Context(), made.ID)
	require.NoError(t, err)
	var live []string
	for _, record := range a.ledger.Live() {
		live = append(live, string(record.Kind)+" "+record.Name)
	}
	require.Equal(t, []string{"tag drover:b"}, live)
}
