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
	"sync"
	"testing"
	"time"

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

// serve runs the API for the length of the test. Its tokens are "secret",
// "reader" (read only), "revoked" and "expired", named as their secrets.
func serve(tb testing.TB, opts rest.Options) *api {
	tb.Helper()
	l, err := ledger.Open("")
	require.NoError(tb, err)
	a, err := account.New(context.Background(), account.Options{
		Backend: server.NewInstant(), Ledger: l,
		Network: &account.Network{
			Public: netip.MustParsePrefix("198.18.0.0/17"), Private: netip.MustParsePrefix("198.18.128.0/17"),
			Gateway: netip.MustParseAddr("198.18.0.1"),
		},
	})
	require.NoError(tb, err)
	opts.Account, opts.Ledger, opts.Faults = a, l, fault.NewSet()
	opts.Tokens = account.NewTokens(
		account.Token{Name: "secret", Secret: "secret"}, account.Token{Name: "reader", Secret: "reader", ReadOnly: true},
		account.Token{Name: "revoked", Secret: "revoked", Revoked: true},
		account.Token{Name: "expired", Secret: "expired", Expires: time.Unix(1, 0)},
	)
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
		"actions of none":    {"GET", "/v2/droplets/7/actions", "", 404, "not_found", notFound},
		"actions of odd id":  {"GET", "/v2/droplets/x/actions", "", 404, "not_found", notFound},
		"act on none":        {"POST", "/v2/droplets/7/actions", `{"type":"reboot"}`, 404, "not_found", notFound},
		"act on odd id":      {"POST", "/v2/droplets/x/actions", `{"type":"reboot"}`, 404, "not_found", notFound},
		"odd action":         {"GET", "/v2/actions/x", "", 404, "not_found", notFound},
		"no such action":     {"GET", "/v2/droplets/7/actions/8", "", 404, "not_found", notFound},
		"odd droplet action": {"GET", "/v2/droplets/7/actions/x", "", 404, "not_found", notFound},
		"action of odd id":   {"GET", "/v2/droplets/x/actions/8", "", 404, "not_found", notFound},
		"no such image":      {"GET", "/v2/images/dos-6", "", 404, "not_found", notFound},
		"no such tag":        {"GET", "/v2/tags/blue", "", 404, "not_found", notFound},
		"no such key":        {"PUT", "/v2/account/keys/7", `{"name":"x"}`, 404, "not_found", notFound},
		"no body":            {"POST", "/v2/droplets", "", 400, "bad_request", badJSON},
		"half a body":        {"POST", "/v2/droplets", `{"name":"a"`, 400, "bad_request", badJSON},
		"not JSON":           {"POST", "/v2/droplets", "name=a", 400, "bad_request", badJSON},
		"a list":             {"POST", "/v2/account/keys", "[]", 400, "bad_request", badJSON},
		"a number as name":   {"POST", "/v2/droplets", `{"name":7}`, 400, "bad_request", badJSON},
		"an object as image": {"POST", "/v2/droplets", `{"name":"a","image":{}}`, 400, "bad_request", badJSON},
		"true as key":        {"POST", "/v2/droplets", `{"name":"a","ssh_keys":[true]}`, 400, "bad_request", badJSON},
		"key not JSON":       {"PUT", "/v2/account/keys/7", "x", 400, "bad_request", badJSON},
		"tag not JSON":       {"POST", "/v2/tags", "x", 400, "bad_request", badJSON},
		"action not JSON":    {"POST", "/v2/droplets/7/actions", "x", 400, "bad_request", badJSON},
		"resources not JSON": {"POST", "/v2/tags/blue/resources", "x", 400, "bad_request", badJSON},
		"empty object":       {"POST", "/v2/droplets", "{}", 422, "unprocessable_entity", "Name can't be blank"},
		"null image":         {"POST", "/v2/droplets", `{"name":"a","region":"nyc3","size":"c-2","image":null}`, 422, "unprocessable_entity", "You specified an invalid image for Droplet creation."},
		"bad key":            {"POST", "/v2/account/keys", key, 422, "unprocessable_entity", "Key invalid, key should be of the format `ssh-<type> <key data> <optional comment>`"},
		"delete without tag": {"DELETE", "/v2/droplets", "", 422, "unprocessable_entity", "tag_name can't be blank"},
		"odd action type":    {"POST", "/v2/droplets/7/actions", `{"type":"resize"}`, 422, "unprocessable_entity", "Type is invalid or not supported here: resize"},
		"tag a volume":       {"POST", "/v2/tags/blue/resources", `{"resources":[{"resource_id":"7","resource_type":"volume"}]}`, 422, "unprocessable_entity", "Only droplets can be tagged here."},
		"tag an odd id":      {"DELETE", "/v2/tags/blue/resources", `{"resources":[{"resource_id":"x","resource_type":"droplet"}]}`, 422, "unprocessable_entity", "Only droplets can be tagged here."},
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
		"none":             {"", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"unknown":          {"Bearer nonsense", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"no secret":        {"Bearer ", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"only the secret":  {"secret", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"basic":            {"Basic secret", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"revoked":          {"Bearer revoked", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"expired":          {"Bearer expired", "GET", 401, "Unauthorized", "Unable to authenticate you"},
		"a reader deletes": {"Bearer reader", "DELETE", 403, "Forbidden", "You are not authorized to perform this operation"},
		"a reader creates": {"Bearer reader", "POST", 403, "Forbidden", "You are not authorized to perform this operation"},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.ask(t, test.method, "/v2/droplets?tag_name=x", "{}", "Authorization", test.authorization)
			got.requireError(t, test.status, test.id, test.message)
			require.NotContains(t, got.body, "secret")
		})
	}
	for _, authorization := range []string{"Bearer secret", "bearer secret", "Bearer  secret", "Bearer reader"} {
		require.Equal(t, 200, a.ask(t, "GET", "/v2/droplets", "", "Authorization", authorization).status, authorization)
		require.Equal(t, 200, a.ask(t, "HEAD", "/v2/droplets", "", "Authorization", authorization).status, authorization)
	}
}

func TestEmptyListsAreListsNotNull(t *testing.T) {
	a := serve(t, rest.Options{})
	for path, field := range map[string]string{
		"/v2/account/keys": "ssh_keys", "/v2/droplets": "droplets", "/v2/actions": "actions", "/v2/tags": "tags",
		"/v2/images?private=true": "images", "/v2/images?type=application": "images", "/v2/droplets?type=gpus": "droplets",
		"/v2/droplets?name=x": "droplets", "/v2/droplets?tag_name=x": "droplets",
	} {
		require.JSONEq(t, `{"`+field+`":[],"links":{},"meta":{"total":0}}`, a.ask(t, "GET", path, "").body, path)
	}
}

// pages are questions for a list of 45 tags and where one is then.
func pages() map[string]struct {
	query             string
	count             int
	first, prev, next string
	last              string
} {
	return map[string]struct {
		query             string
		count             int
		first, prev, next string
		last              string
	}{
		"default":         {"", 20, "", "", "page=2", "page=3"},
		"second":          {"page=2", 20, "page=1", "page=1", "page=3", "page=3"},
		"last":            {"page=3", 5, "page=1", "page=2", "", ""},
		"behind the last": {"page=9", 0, "page=1", "page=3", "", ""},
		"far behind":      {"page=99999999999", 0, "page=1", "page=3", "", ""},
		"no int":          {"page=99999999999999999999", 20, "", "", "page=2", "page=3"},
		"page zero":       {"page=0", 20, "", "", "page=2", "page=3"},
		"negative":        {"page=-1&per_page=-1", 20, "", "", "page=2&per_page=-1", "page=3&per_page=-1"},
		"nonsense":        {"page=x&per_page=y", 20, "", "", "page=2&per_page=y", "page=3&per_page=y"},
		"one each":        {"per_page=1", 1, "", "", "page=2&per_page=1", "page=45&per_page=1"},
		"exactly all":     {"per_page=45", 45, "", "", "", ""},
		"all but one":     {"per_page=44&page=2", 1, "page=1&per_page=44", "page=1&per_page=44", "", ""},
		"the most":        {"per_page=200", 45, "", "", "", ""},
		"more than most":  {"per_page=1000", 45, "", "", "", ""},
	}
}

func TestPages(t *testing.T) {
	a := serve(t, rest.Options{})
	for i := range 45 {
		_, err := a.account.CreateTag(account.Caller{}, "tag-"+strconv.Itoa(100+i))
		require.NoError(t, err)
	}
	for name, test := range pages() {
		t.Run(name, func(t *testing.T) {
			var got struct {
				Tags  []godo.Tag `json:"tags"`
				Links struct {
					Pages map[string]string `json:"pages"`
				} `json:"links"`
				Meta godo.Meta `json:"meta"`
			}
			require.NoError(t, json.Unmarshal([]byte(a.ask(t, "GET", "/v2/tags?"+test.query, "").body), &got))
			require.Len(t, got.Tags, test.count)
			require.Equal(t, 45, got.Meta.Total)
			for rel, want := range map[string]string{"first": test.first, "prev": test.prev, "next": test.next, "last": test.last} {
				if want != "" {
					want = "https://api.digitalocean.com/v2/tags?" + want
				}
				require.Equal(t, want, got.Links.Pages[rel], rel)
			}
		})
	}
}

func TestGodoWalksEveryPageOnce(t *testing.T) {
	a := serve(t, rest.Options{})
	for i := range 23 {
		_, _, err := a.client.Droplets.Create(t.Context(), droplet("web-"+strconv.Itoa(i)))
		require.NoError(t, err)
	}
	for perPage := range 25 {
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

func TestLinksKeepTheQuestion(t *testing.T) {
	a := serve(t, rest.Options{})
	for range 3 {
		ask := droplet("a")
		ask.Tags = []string{"drover:x"}
		_, _, err := a.client.Droplets.Create(t.Context(), ask)
		require.NoError(t, err)
	}
	_, response, err := a.client.Droplets.ListByTag(t.Context(), "drover:x", &godo.ListOptions{PerPage: 2})
	require.NoError(t, err)
	next, err := url.Parse(response.Links.Pages.Next)
	require.NoError(t, err)
	require.Equal(t, url.Values{"tag_name": {"drover:x"}, "page": {"2"}, "per_page": {"2"}}, next.Query())
	require.Equal(t, response.Links.Pages.Next, response.Links.Pages.Last)
}

func TestRateLimitsAreToldAndKeptPerToken(t *testing.T) {
	a := serve(t, rest.Options{RateLimit: 3})
	for want := 2; want >= 0; want-- {
		got := a.ask(t, "GET", "/v2/account", "")
		require.Equal(t, 200, got.status)
		require.Equal(t, "3", got.header.Get("Ratelimit-Limit"))
		require.Equal(t, strconv.Itoa(want), got.header.Get("Ratelimit-Remaining"))
		reset, err := strconv.ParseInt(got.header.Get("Ratelimit-Reset"), 10, 64)
		require.NoError(t, err)
		require.WithinRange(t, time.Unix(reset, 0), time.Now().Add(50*time.Minute), time.Now().Add(61*time.Minute))
		require.Empty(t, got.header.Get("Retry-After"))
	}
	got := a.ask(t, "POST", "/v2/droplets", `{"name":"a","region":"nyc3","size":"c-2","image":"debian-12-x64"}`)
	got.requireError(t, 429, "too_many_requests", "API Rate limit exceeded.")
	seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
	require.NoError(t, err)
	require.Greater(t, seconds, 3000)
	require.LessOrEqual(t, seconds, 3600)
	require.Equal(t, "0", got.header.Get("Ratelimit-Remaining"))
	require.Empty(t, a.account.Droplets("", ""), "nothing was done")
	_, response, err := a.as(t, "reader").Account.Get(t.Context())
	require.NoError(t, err, "the other token has its own limit")
	require.Equal(t, 2, response.Remaining)
}

func TestTheRateLimitHoldsUnderConcurrency(t *testing.T) {
	a := serve(t, rest.Options{RateLimit: 30})
	var clients sync.WaitGroup
	statuses := make(chan int, 80)
	for range 8 {
		clients.Go(func() {
			for range 10 {
				_, response, _ := a.client.Account.Get(context.Background())
				statuses <- response.StatusCode
			}
		})
	}
	clients.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	require.Equal(t, map[int]int{200: 30, 429: 50}, count)
}

func TestWithoutALimitTheRealOneIsTold(t *testing.T) {
	a := serve(t, rest.Options{})
	got := a.ask(t, "GET", "/v2/account", "")
	require.Equal(t, "5000", got.header.Get("Ratelimit-Limit"))
	require.Equal(t, "4999", got.header.Get("Ratelimit-Remaining"))
	require.JSONEq(t, `{"account":{"droplet_limit":10000,"floating_ip_limit":3,"reserved_ip_limit":3,"volume_limit":100,
		"email":"drover@example.test","name":"Drover Test","uuid":"5f2b6a0c-3f4e-4a43-9a51-0f4d8c0c7a11","email_verified":true,
		"status":"active","team":{"name":"Drover","uuid":"2b6f0f4e-9e2e-4e0d-8f13-6f3a1c6b7d22"}}}`, got.body)
}

// FuzzAPI sends anything to any path: no answer is a 5xx or without a body that clients can read.
func FuzzAPI(f *testing.F) {
	f.Add("POST", "/v2/droplets", []byte(`{"names":["a","b"],"region":"nyc3","size":"c-2","image":139080908}`))
	f.Add("POST", "/v2/tags/a/resources", []byte(`{"resources":[{"resource_id":"100000001","resource_type":"droplet"}]}`))
	f.Add("POST", "/v2/droplets/100000001/actions", []byte(`{"type":"power_cycle"}`))
	f.Add("GET", "/v2/droplets?page=2&per_page=0&tag_name=%zz", []byte(nil))
	f.Add("PUT", "/v2/account/keys/20000001", []byte(`{"name":null}`))
	f.Add("DELETE", "/v2/account/keys/", []byte(`x`))
	l, err := ledger.Open("")
	require.NoError(f, err)
	network := &account.Network{Public: netip.MustParsePrefix("198.18.0.0/17"), Private: netip.MustParsePrefix("198.18.128.0/17")}
	a, err := account.New(context.Background(), account.Options{Backend: server.NewInstant(), Ledger: l, Network: network})
	require.NoError(f, err)
	f.Cleanup(a.Close)
	handler := rest.NewHandler(rest.Options{
		Account: a, Ledger: l, Faults: fault.NewSet(), Tokens: account.NewTokens(account.Token{Name: "t", Secret: "t"}),
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
