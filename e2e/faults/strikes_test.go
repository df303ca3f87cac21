package faults

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asked is what comes of so many requests on a way.
func asked(t *testing.T, way http.RoundTripper, n int) []string {
	t.Helper()
	var out []string
	for range n {
		response, err := way.RoundTrip(httptest.NewRequest(http.MethodPatch, "http://server/api/v1/namespaces/n/secrets/s", nil))
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			out = append(out, "refused")
		case errors.Is(err, errDied):
			out = append(out, "died")
		case err != nil:
			out = append(out, "lost")
		default:
			out = append(out, response.Status)
			require.NoError(t, response.Body.Close())
		}
	}
	return out
}

func TestGate_strikesWhatItIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		strike strike
		want   []string
		served int
	}{
		"nothing":            {strike{}, []string{"OK", "OK", "OK"}, 3},
		"conflict twice":     {strike{status: http.StatusConflict, more: 1}, []string{"OK", "Conflict", "Conflict"}, 1},
		"answer lost":        {strike{lost: true}, []string{"OK", "lost", "OK"}, 3},
		"refused":            {strike{refuse: 1}, []string{"OK", "refused", "OK"}, 2},
		"refused to the end": {strike{refuse: 1, more: 9}, []string{"OK", "refused", "refused"}, 1},
		"died before":        {strike{die: diesBefore}, []string{"OK", "died", "died"}, 1},
		"died after":         {strike{die: diesAfter}, []string{"OK", "died", "died"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			served, ends := 0, 0
			g := &gate{refusing: &atomic.Int32{}, next: roundTripper(func(*http.Request) (*http.Response, error) {
				served++
				return &http.Response{Status: "OK", Body: io.NopCloser(&bytes.Buffer{})}, nil
			})}
			g.begin(map[int]strike{1: c.strike})
			require.Equal(t, c.want, asked(t, &mortal{gate: g, end: func() { ends++ }}, 3))
			require.Equal(t, c.served, served)
			require.True(t, g.hasStruck(1))
			require.False(t, g.hasStruck(0))
			require.Equal(t, c.want[2] == "died", ends > 0)
			g.ended()
			require.Equal(t, []string{"OK"}, asked(t, &mortal{gate: g}, 1), "another process is not struck any more")
			require.Equal(t, "PATCH api/v1/namespaces/*/secrets/s", g.recorded()[0])
		})
	}
}
