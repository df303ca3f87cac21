package clouds_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/driver"
)

// A proxy that rejects a CONNECT request shows nothing about the credential or the server.
func TestProxyFailed_realTransport(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 407, 410, 429, 500, 502, 503, 504} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		address, err := url.Parse(proxy.URL)
		require.NoError(t, err)
		transport := &http.Transport{Proxy: http.ProxyURL(address)}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/v1/servers?label=a", nil)
		require.NoError(t, err)
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err == nil {
			require.NoError(t, response.Body.Close())
		}
		require.Error(t, err)
		for _, text := range []string{err.Error(), "checking the account: " + err.Error(), "RequestError: send request failed\ncaused by: " + err.Error() + "\n",
			fmt.Sprintf("level=error msg=%q", err.Error())} {
			for _, name := range append(driver.BuiltinNames(), "hetzner", "acme", "") {
				require.Equal(t, rkev1.ClassTransient, clouds.Of(name).Classify(text), "%s: %s", name, text)
				require.False(t, clouds.Of(name).IsGone(text), "%s: %s", name, text)
			}
			require.True(t, clouds.ProxyFailed(text), text)
		}
		proxy.Close()
	}
}

func TestProxyFailed(t *testing.T) {
	for text, want := range map[string]bool{
		`Get "https://api.hetzner.cloud/v1/servers": Forbidden`:                                                           true,
		`Get "https://api.vultr.com/v2/account": Proxy Authentication Required`:                                           true,
		`Get "https://api.vultr.com/v2/account": proxyconnect tcp: dial tcp 198.18.0.1:3128: connect: connection refused`: true,
		`Get "https://api.example.com/": Forbidden: the token lacks the permission`:                                       false,
		`Get "https://api.example.com/": 403 Forbidden`:                                                                   false,
		`GET https://api.example.com/v2/account: Forbidden`:                                                               false,
		`the cloud answers "x": Forbidden`:                                                                                false,
		`Unauthorized`:                                                                                                    false,
		``:                                                                                                                false,
	} {
		require.Equal(t, want, clouds.ProxyFailed(text), text)
	}
}
