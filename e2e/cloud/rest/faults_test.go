package rest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/rest"
)

func (a *api) program(t *testing.T, rule fault.Rule) {
	t.Helper()
	_, err := a.faults.Add(rule)
	require.NoError(t, err)
}

func TestFaultsAnswerAsTheAPIWould(t *testing.T) {
	for name, test := range map[string]struct {
		effect      fault.Effect
		status      int
		id, message string
	}{
		"400":             {fault.Effect{Status: 400}, 400, "bad_request", "Bad Request"},
		"401":             {fault.Unauthorized, 401, "Unauthorized", "Unable to authenticate you"},
		"403":             {fault.Effect{Status: 403}, 403, "Forbidden", "You are not authorized to perform this operation"},
		"404":             {fault.Effect{Status: 404}, 404, "not_found", notFound},
		"409":             {fault.Effect{Status: 409}, 409, "conflict", "Conflict"},
		"422":             {fault.Effect{Status: 422}, 422, "unprocessable_entity", "The request could not be processed."},
		"422 with text":   {fault.Refused("no room"), 422, "unprocessable_entity", "no room"},
		"quota":           {fault.Quota, 422, "unprocessable_entity", "creating this/these droplet(s) will exceed your droplet limit"},
		"429":             {fault.RateLimited(0), 429, "too_many_requests", "API Rate limit exceeded."},
		"500":             {fault.Effect{Status: 500}, 500, "server_error", "Server Error"},
		"502":             {fault.Effect{Status: 502}, 502, "bad_gateway", "Bad Gateway"},
		"503":             {fault.Effect{Status: 503}, 503, "service_unavailable", "Service Unavailable"},
		"504":             {fault.Effect{Status: 504}, 504, "gateway_timeout", "Gateway Timeout"},
		"own id and text": {fault.Effect{Status: 500, ErrorID: "odd", Message: "so odd"}, 500, "odd", "so odd"},
		"slow as well":    {fault.Effect{Status: 503, Latency: time.Millisecond}, 503, "service_unavailable", "Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, rest.Options{})
			a.program(t, fault.Rule{Match: fault.AnyRequest, Count: 1, Effect: test.effect})
			a.ask(t, "GET", "/v2/droplets", "").requireError(t, test.status, test.id, test.message)
			require.Equal(t, 200, a.ask(t, "GET", "/v2/droplets", "").status)
		})
	}
}

// acts are requests that change something, and a way to count what they changed.
func acts() map[string]struct {
	match string
	act   func(context.Context, *godo.Client) (*godo.Response, error)
	done  func(*api) bool
} {
	type act = struct {
		match string
		act   func(context.Context, *godo.Client) (*godo.Response, error)
		done  func(*api) bool
	}
	return map[string]act{
		"create droplet": {fault.CreateDroplet, func(ctx context.Context, c *godo.Client) (*godo.Response, error) {
			_, response, err := c.Droplets.Create(ctx, droplet("new"))
			return response, err
		}, func(a *api) bool { return len(a.account.Droplets("new", "")) == 1 }},
		"delete droplet": {fault.DeleteDroplet, func(ctx context.Context, c *godo.Client) (*godo.Response, error) {
			return c.Droplets.Delete(ctx, 100_000_001)
		}, func(a *api) bool { return len(a.account.Droplets("old", "")) == 0 }},
		"create key": {fault.CreateKey, func(ctx context.Context, c *godo.Client) (*godo.Response, error) {
			_, response, err := c.Keys.Create(ctx, &godo.KeyCreateRequest{Name: "new", PublicKey: otherKey})
			return response, err
		}, func(a *api) bool { return len(a.account.Keys()) == 2 }},
		"delete key": {fault.DeleteKey, func(ctx context.Context, c *godo.Client) (*godo.Response, error) {
			return c.Keys.DeleteByID(ctx, 20_000_001)
		}, func(a *api) bool { return len(a.account.Keys()) == 0 }},
		"create tag": {"POST /v2/tags", func(ctx context.Context, c *godo.Client) (*godo.Response, error) {
			_, response, err := c.Tags.Create(ctx, &godo.TagCreateRequest{Name: "red"})
			return response, err
		}, func(a *api) bool { return len(a.ledger.Live(ledger.KindTag)) == 2 }},
		"delete tag": {"DELETE /v2/tags/*", func(ctx context.Context, c *godo.Client) (*godo.Response, error) {
			return c.Tags.Delete(ctx, "blue")
		}, func(a *api) bool { return len(a.ledger.Live(ledger.KindTag)) == 0 }},
	}
}

const (
	oneKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPLtdQqX5R9+CD9KFhZW7PrPdGTg5kZMJWkzNxOoV0W8 someone@host"
	otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPLtdQqX5R9+CD9KFhZW7PrPdGTg5kZMJWkzNxOoV0W9 someone@host"
)

// furnish makes the droplet, key and tag that the acts are about.
func (a *api) furnish(t *testing.T) {
	t.Helper()
	_, _, err := a.client.Keys.Create(t.Context(), &godo.KeyCreateRequest{Name: "old", PublicKey: oneKey})
	require.NoError(t, err)
	ask := droplet("old")
	ask.Tags = []string{"blue"}
	made, _, err := a.client.Droplets.Create(t.Context(), ask)
	require.NoError(t, err)
	a.account.AwaitBoot(t.Context(), made.ID, 10*time.Second)
}

// TestFaultsBeforeAndAfterEveryAct is the promise that fault stories rest on:
// before means nothing was done, after means all was, whatever the client saw.
func TestFaultsBeforeAndAfterEveryAct(t *testing.T) {
	effects := map[string]struct {
		effect fault.Effect
		done   bool
		status int // 0: no answer at all
	}{
		"none":         {fault.Effect{Latency: 1}, true, 200},
		"error before": {fault.Effect{Status: 503}, false, 503},
		"error after":  {fault.Effect{Status: 502, After: true}, true, 502},
		"lost before":  {fault.ConnectionLost, false, 0},
		"answer lost":  {fault.AnswerLost, true, 0},
		"401":          {fault.Unauthorized, false, 401},
		"422":          {fault.Refused("no"), false, 422},
		"429":          {fault.RateLimited(time.Second), false, 429},
	}
	for actName, act := range acts() {
		for effectName, effect := range effects {
			t.Run(actName+"/"+effectName, func(t *testing.T) {
				a := serve(t, rest.Options{})
				a.furnish(t)
				require.False(t, act.done(a))
				a.program(t, fault.Rule{ID: "it", Match: act.match, Count: 1, Effect: effect.effect})
				response, err := act.act(t.Context(), a.client)
				require.Equal(t, effect.status == 200, err == nil, "%v", err)
				if effect.status > 200 {
					require.Equal(t, effect.status, response.StatusCode)
				}
				require.Equal(t, effect.done, act.done(a))
				require.Equal(t, 1, a.faults.List()[0].Applied)
			})
		}
	}
}

func TestABootFaultReachesTheServer(t *testing.T) {
	a := serve(t, rest.Options{})
	a.program(t, fault.Rule{Match: fault.CreateDroplet, Count: 1, Effect: fault.NeverBoots})
	for _, want := range []string{"new", "active"} {
		made, _, err := a.client.Droplets.Create(t.Context(), droplet("web"))
		require.NoError(t, err)
		a.account.AwaitBoot(t.Context(), made.ID, 10*time.Second)
		got, _, err := a.client.Droplets.Get(t.Context(), made.ID)
		require.NoError(t, err)
		require.Equal(t, want, got.Status)
	}
}

func TestAFaultIsInTheLedger(t *testing.T) {
	a := serve(t, rest.Options{})
	a.program(t, fault.Rule{ID: "slow", Match: fault.AnyRequest, Effect: fault.Effect{Latency: 1}})
	a.program(t, fault.Rule{ID: "gone", Match: fault.CreateDroplet, Name: "web-*", Effect: fault.Effect{Status: 503, After: true}})
	got := a.ask(t, "POST", "/v2/droplets", `{"name":"web-1","region":"nyc3","size":"c-2","image":"debian-12-x64"}`)
	require.Equal(t, 503, got.status)
	requestID := got.header.Get("X-Request-Id")
	var faults []string
	for _, entry := range a.ledger.Entries() {
		if entry.Op != ledger.OpFault {
			continue
		}
		require.Equal(t, requestID, entry.RequestID)
		require.Equal(t, "secret", entry.Token, "the token's name")
		require.Equal(t, "web-1", entry.Name)
		faults = append(faults, entry.Cause)
	}
	require.Equal(t, []string{"slow", "gone"}, faults)
	records := a.ledger.Records(ledger.KindDroplet)
	require.Len(t, records, 1, "it acted before the error")
	require.Equal(t, requestID, records[0].RequestID)
}

func TestFaultsMatchTheNameInTheBody(t *testing.T) {
	for name, test := range map[string]struct {
		method, path, body string
		hit                bool
	}{
		"droplet":          {"POST", "/v2/droplets", `{"name":"it"}`, true},
		"key":              {"POST", "/v2/account/keys", `{"name":"it"}`, true},
		"tag":              {"POST", "/v2/tags", `{"name":"it"}`, true},
		"another":          {"POST", "/v2/tags", `{"name":"its"}`, false},
		"no name":          {"POST", "/v2/droplets", `{"region":"it"}`, false},
		"no JSON":          {"POST", "/v2/droplets", `it`, false},
		"no body":          {"POST", "/v2/droplets", ``, false},
		"a name elsewhere": {"GET", "/v2/droplets?name=it", ``, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, rest.Options{})
			a.program(t, fault.Rule{Match: fault.AnyRequest, Name: "it", Effect: fault.Effect{Status: 503}})
			got := a.ask(t, test.method, test.path, test.body)
			require.Equal(t, test.hit, got.status == 503, got.body)
		})
	}
}

func TestRetryAfterRoundsUpAndIsInAllHeaders(t *testing.T) {
	for after, want := range map[time.Duration]string{time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Minute: "60"} {
		a := serve(t, rest.Options{})
		a.program(t, fault.Rule{Match: fault.AnyRequest, Effect: fault.RateLimited(after)})
		got := a.ask(t, "GET", "/v2/account", "")
		require.Equal(t, want, got.header.Get("Retry-After"))
		require.Equal(t, "0", got.header.Get("Ratelimit-Remaining"))
		require.NotEmpty(t, got.header.Get("Ratelimit-Reset"))
	}
	a := serve(t, rest.Options{})
	a.program(t, fault.Rule{Match: fault.AnyRequest, Effect: fault.Effect{Status: 503}})
	require.Empty(t, a.ask(t, "GET", "/v2/account", "").header.Get("Retry-After"))
}

func TestASlowAnswerCanBeGivenUp(t *testing.T) {
	a := serve(t, rest.Options{})
	a.program(t, fault.Rule{ID: "slow", Match: "GET /v2/account", Effect: fault.Effect{Latency: time.Hour}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := a.client.Account.Get(ctx)
		done <- err
	}()
	require.Eventually(t, func() bool { return len(a.faults.Hits()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.True(t, a.faults.Remove("slow"))
	require.Equal(t, http.StatusOK, a.ask(t, "GET", "/v2/account", "").status, "others are not held up")
}
