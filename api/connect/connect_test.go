package connect_test

import (
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/connect"
)

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}

func requestOf(tb testing.TB, key ed25519.PrivateKey) []byte {
	tb.Helper()
	body, err := json.Marshal(connect.Request{PublicKey: key.Public().(ed25519.PublicKey), Time: time.Unix(0, 0).UTC(), Nonce: []byte("n")})
	require.NoError(tb, err)
	return body
}

func TestDecodeRequest(t *testing.T) {
	key, other := keyOf('a'), keyOf('b')
	body := requestOf(t, key)
	r, err := connect.DecodeRequest(body, connect.Sign(key, body))
	require.NoError(t, err)
	require.Equal(t, []byte(key.Public().(ed25519.PublicKey)), r.PublicKey)

	for name, tt := range map[string]struct {
		body      []byte
		signature string
	}{
		"signed by another key":   {body, connect.Sign(other, body)},
		"another body":            {requestOf(t, other), connect.Sign(key, body)},
		"no signature":            {body, ""},
		"no domain":               {body, string(ed25519.Sign(key, body))},
		"no key":                  {[]byte(`{}`), connect.Sign(key, []byte(`{}`))},
		"too much":                {make([]byte, connect.MaxRequestBytes+1), ""},
		"something after the end": {append(slices.Clip(body), '{'), connect.Sign(key, append(slices.Clip(body), '{'))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect.DecodeRequest(tt.body, tt.signature)
			require.Error(t, err)
		})
	}
}

// FuzzDecode: a request is taken with a key that signed exactly it, an answer with all that it must have; else refused.
func FuzzDecode(f *testing.F) {
	key := keyOf('a')
	f.Add(requestOf(f, key), connect.Sign(key, requestOf(f, key)))
	f.Add([]byte(`{"kubeConfig":"k","namespace":"n","secretName":"s","expiresAt":"2026-01-01T00:00:00Z"}`), "")
	f.Fuzz(func(t *testing.T, body []byte, signature string) {
		if r, err := connect.DecodeRequest(body, signature); err == nil {
			require.Len(t, r.PublicKey, ed25519.PublicKeySize)
			_, err := connect.DecodeRequest(append(body, ' '), signature)
			require.Error(t, err)
		}
		if a, err := connect.DecodeAnswer(body); err == nil {
			require.NotEmpty(t, a.KubeConfig+a.Namespace+a.SecretName)
		}
	})
}
