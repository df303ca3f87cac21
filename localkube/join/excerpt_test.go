package join

import (
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestExcerpt_obeys_nobody(t *testing.T) {
	check := func(body []byte) {
		got := excerpt(body)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, utf8.RuneCountInString(got), 402)
		for _, r := range got {
			require.True(t, unicode.IsPrint(r), "%q would upset a terminal", r)
		}
	}
	for _, seed := range []string{"", "a\nb", "\xff", "\x1b[31m", strings.Repeat("ü", 1000), "\u2028\u202e"} {
		check([]byte(seed))
	}
}

// What is let through becomes part of etcd's list of members, name=URL,name=URL.
func FuzzServerRequest(f *testing.F) {
	for _, seed := range []string{"https://198.18.0.2:2380", "https://[::1]:1", "https://a,b=https://c:1", "https://198.18.0.2:2380,x=https://y:1"} {
		f.Add("two", seed)
	}
	f.Fuzz(func(t *testing.T, name, peer string) {
		if (ServerRequest{Name: name, PeerURL: peer}).Validate() != nil {
			return
		}
		require.NotContains(t, name+peer, ",")
		require.NotContains(t, name+peer, "=")
		parsed, err := url.Parse(peer)
		require.NoError(t, err)
		require.Equal(t, "https", parsed.Scheme)
		require.Empty(t, parsed.Path+parsed.RawQuery+parsed.Fragment)
		require.NotEmpty(t, parsed.Port())
	})
}
