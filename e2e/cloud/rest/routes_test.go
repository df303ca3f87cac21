package rest_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/rest"
)

func serverConfig(certificate tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
}

func clientConfig(roots *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// routes are all requests the API knows; those that change something are not for readers.
func routes() map[string]bool {
	return map[string]bool{
		"GET /v2/account": false, "GET /v2/account/keys": false, "POST /v2/account/keys": true, "GET /v2/account/keys/1": false,
		"PUT /v2/account/keys/1": true, "DELETE /v2/account/keys/1": true,
		"GET /v2/droplets": false, "POST /v2/droplets": true, "DELETE /v2/droplets?tag_name=x": true, "GET /v2/droplets/1": false,
		"DELETE /v2/droplets/1": true, "GET /v2/droplets/1/actions": false, "POST /v2/droplets/1/actions": true, "GET /v2/droplets/1/actions/1": false,
		"GET /v2/actions": false, "GET /v2/actions/1": false, "GET /v2/regions": false, "GET /v2/sizes": false, "GET /v2/images": false,
		"GET /v2/images/1": false, "GET /v2/tags": false, "POST /v2/tags": true, "GET /v2/tags/x": false, "DELETE /v2/tags/x": true,
		"POST /v2/tags/x/resources": true, "DELETE /v2/tags/x/resources": true,
	}
}

func TestEveryRouteAsksForAToken(t *testing.T) {
	a := serve(t, rest.Options{})
	for route, changes := range routes() {
		method, path, _ := strings.Cut(route, " ")
		for _, authorization := range []string{"", "Bearer wrong", "Bearer revoked", "Bearer expired", "Bearer secretx", "Bearer secre", "Token secret"} {
			got := a.ask(t, method, path, "{}", "Authorization", authorization)
			got.requireError(t, http.StatusUnauthorized, "Unauthorized", "Unable to authenticate you")
		}
		if changes {
			got := a.ask(t, method, path, "{}", "Authorization", "Bearer reader")
			got.requireError(t, http.StatusForbidden, "Forbidden", "You are not authorized to perform this operation")
			continue
		}
		require.NotEqual(t, http.StatusForbidden, a.ask(t, method, path, "", "Authorization", "Bearer reader").status, route)
	}
	require.Empty(t, a.ledger.Entries(), "nothing was changed")
}

// Every answer, good or not, tells its request's id and the rate, as godo reads them from each.
func TestEveryAnswerHasTheHeadersGodoReads(t *testing.T) {
	a := serve(t, rest.Options{})
	seen := map[string]bool{}
	for route := range routes() {
		method, path, _ := strings.Cut(route, " ")
		got := a.ask(t, method, path, "{}")
		id := got.header.Get("X-Request-Id")
		require.NotEmpty(t, id, route)
		require.False(t, seen[id], "ids differ")
		seen[id] = true
		for _, name := range []string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"} {
			require.Regexp(t, `^\d+$`, got.header.Get(name), "%s of %s", name, route)
		}
		if got.status != http.StatusNoContent {
			require.Equal(t, "application/json; charset=utf-8", got.header.Get("Content-Type"), route)
		}
	}
}

func TestATokenRevokedMeanwhileIsRefusedNext(t *testing.T) {
	a := serve(t, rest.Options{})
	_, _, err := a.client.Account.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.tokens.Revoke("secret"))
	_, response, err := a.client.Account.Get(t.Context())
	require.ErrorContains(t, err, "401 (request")
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.NoError(t, a.tokens.Restore("secret"))
	a.tokens.Set(account.Token{Name: "secret", Secret: "rotated"})
	_, _, err = a.client.Account.Get(t.Context())
	require.Error(t, err, "the old secret")
	_, _, err = a.as(t, "rotated").Account.Get(t.Context())
	require.NoError(t, err)
}

// A limit that is used up is told before anything is done, and a fault of the same request does not hide it.
func TestNothingIsDoneOverTheLimit(t *testing.T) {
	a := serve(t, rest.Options{RateLimit: 2})
	for range 2 {
		require.Equal(t, http.StatusOK, a.ask(t, "GET", "/v2/droplets", "").status)
	}
	const create = `{"name":"a","region":"nyc3","size":"c-2","image":"debian-12-x64"}`
	got := a.ask(t, "POST", "/v2/droplets", create)
	got.requireError(t, http.StatusTooManyRequests, "too_many_requests", "API Rate limit exceeded.")
	require.Regexp(t, `^\d+$`, got.header.Get("Retry-After"))
	require.Equal(t, "0", got.header.Get("Ratelimit-Remaining"))
	require.Empty(t, a.account.Droplets("", ""))
	_, err := a.faults.Add(fault.Rule{Match: fault.CreateDroplet, Effect: fault.ServerErrorAfter(http.StatusBadGateway)})
	require.NoError(t, err)
	require.Equal(t, http.StatusBadGateway, a.ask(t, "POST", "/v2/droplets", create).status)
	require.Empty(t, a.account.Droplets("", ""), "it was refused behind the fault, too")
	require.Equal(t, http.StatusOK, a.ask(t, "GET", "/v2/droplets", "", "Authorization", "Bearer reader").status, "another token has its own")
}
