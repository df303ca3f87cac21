package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The patterns of all mirrors together have bounds, in bytes and in instructions.
func TestCheckMirrors(t *testing.T) {
	with := func(number int, pattern string) map[string]Mirror {
		out := map[string]Mirror{}
		for i := range number {
			out[fmt.Sprintf("registry-%03d", i)] = Mirror{Endpoints: []string{"mirror.example.com"}, Rewrites: map[string]string{pattern: "$0"}}
		}
		return out
	}
	require.NoError(t, CheckMirrors(nil))
	require.NoError(t, CheckMirrors(with(100, "^library/(.*)$")))
	require.NoError(t, CheckMirrors(with(16, strings.Repeat("a", 256))))
	require.ErrorContains(t, CheckMirrors(with(17, strings.Repeat("a", 256))), "the patterns of all rewrites together are too large")
	require.NoError(t, CheckMirrors(with(10, "a{900}")))
	require.ErrorContains(t, CheckMirrors(with(30, "a{900}")), "the patterns of all rewrites together are too large")
	require.EqualError(t, CheckMirrors(map[string]Mirror{"docker.io": {Endpoints: []string{"https://m.example", "ftp://user:canary@m.example"}}}),
		`mirrors["docker.io"].endpoint[1] is not an address such as https://mirror.example.com:5000`)
}
