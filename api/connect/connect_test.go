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

// A request names a plan Secret by names that the API server allows, as a token does. No error repeats bytes of the request.
func TestDecodeRequest_names(t *testing.T) {
	key := keyOf('a')
	decode := func(r connect.Request) error {
		r.PublicKey = key.Public().(ed25519.PublicKey)
		body, err := json.Marshal(r)
		require.NoError(t, err)
		_, err = connect.DecodeRequest(body, connect.Sign(key, body))
		return err
	}
	require.NoError(t, decode(connect.Request{Namespace: "team-a", SecretName: "pool-1.machine-plan"}))
	require.NoError(t, decode(connect.Request{}))
	long := strings.Repeat("x/", 7000)
	for _, bad := range []string{"a/b", "/", "..", ".", "a%2fb", "%", "A", "a b", "a\n", long} {
		require.EqualError(t, decode(connect.Request{Namespace: bad, SecretName: "s"}), "decoding a request: namespace is not a valid name of a namespace", bad)
		require.EqualError(t, decode(connect.Request{Namespace: "n", SecretName: bad}), "decoding a request: secretName is not a valid name of a Secret", bad)
	}
	for _, body := range []string{`{"publicKey":` + strings.Repeat("1", 10_000) + `}`, `{"time":"` + long + `"}`} {
		_, err := connect.DecodeRequest([]byte(body), connect.Sign(key, []byte(body)))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 200)
	}
}

// FuzzDecode: DecodeRequest accepts a body only with the signature of its key, and only with names that can stand in a path. DecodeAnswer accepts only complete answers.
func FuzzDecode(f *testing.F) {
	key := keyOf('a')
	f.Add(requestOf(f, key), "")
	f.Add([]byte(`{"kubeConfig":"k","namespace":"n","secretName":"s","expiresAt":"2026-01-01T00:00:00Z"}`), connect.Sign(key, requestOf(f, key)))
	f.Add([]byte(`{"namespace":"a/b","secretName":"%2e"}`), "")
	f.Add([]byte(`{"time":"`+strings.Repeat("x", 9000)+`"}`), "")
	f.Fuzz(func(t *testing.T, body []byte, signature string) {
		check := func(body []byte, signature string) {
			r, err := connect.DecodeRequest(body, signature)
			if err != nil {
				require.Less(t, len(err.Error()), 200)
				return
			}
			require.Len(t, r.PublicKey, ed25519.PublicKeySize)
			require.NotContains(t, r.Namespace+r.SecretName, "/")
			require.NotContains(t, r.Namespace+r.SecretName, "%")
			_, err = connect.DecodeRequest(append(body, ' '), signature)
			require.Error(t, err)
		}
		check(body, signature)
		// The fuzzer cannot sign: here is the same request with a key, and the signature of that key.
		var fields map[string]any
		if json.Unmarshal(body, &fields) == nil && fields != nil {
			fields["publicKey"] = []byte(key.Public().(ed25519.PublicKey))
			signed, err := json.Marshal(fields)
			require.NoError(t, err)
			check(signed, connect.Sign(key, signed))
		}
		if a, err := connect.DecodeAnswer(body); err == nil {
			require.NotEmpty(t, a.KubeConfig+a.Namespace+a.SecretName)
		}
	})
}
