package connect_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/connect"
)

func TestToken(t *testing.T) {
	token := connect.NewToken("team-a", "pool-1.machine-plan")
	read, err := connect.ParseToken(token.String())
	require.NoError(t, err)
	require.Equal(t, token, read)
	require.True(t, read.Matches(token.Hash()))
	require.NotContains(t, token.Hash(), token.String())
	other := connect.NewToken("team-a", "pool-1.machine-plan")
	require.NotEqual(t, token.String(), other.String())
	require.False(t, other.Matches(token.Hash()))
	require.False(t, other.Matches(""))

	random := token.String()[strings.LastIndex(token.String(), "/")+1:]
	for _, bad := range []string{"", "drover", "drover/a/b", "drover/a/b/", "drover/a/b/short", "other/a/b/" + random, "drover/A/b/" + random,
		"drover/../b/" + random, "drover/a/b/c/" + random, "drover//b/" + random, "drover/a/" + strings.Repeat("b", 600) + "/" + random} {
		_, err := connect.ParseToken(bad)
		require.EqualError(t, err, "it is not a bootstrap token", bad)
	}
}

// FuzzParseToken: what is read is written the same, and names what can be the name of a Secret.
func FuzzParseToken(f *testing.F) {
	f.Add("drover/a/b/" + strings.Repeat("A", 26))
	f.Fuzz(func(t *testing.T, s string) {
		token, err := connect.ParseToken(s)
		if err != nil {
			require.NotContains(t, err.Error(), s+"!")
			return
		}
		require.Equal(t, s, token.String())
		require.True(t, token.Matches(token.Hash()))
	})
}
