package rest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentifierIsANumberOrAText(t *testing.T) {
	for given, want := range map[string]identifier{`7`: "7", `"debian-12-x64"`: "debian-12-x64", `"7"`: "7"} {
		var got identifier
		require.NoError(t, json.Unmarshal([]byte(given), &got))
		require.Equal(t, want, got)
	}
	var got identifier
	require.Error(t, json.Unmarshal([]byte(`{}`), &got))
}
