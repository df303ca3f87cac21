package join

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/identity"
)

// start serves a cluster and returns where, and the checksum of its authority.
func start(t *testing.T) (at, checksum string) {
	t.Helper()
	files, signer, err := identity.Server{DataDir: t.TempDir(), NodeName: "web-1", Address: "127.0.0.1", URL: "https://127.0.0.1:6443"}.Issue()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- Server{Password: "p:w", Signer: signer, Certificate: files.APIServer, Pods: "198.18.128.0/18", Services: "198.18.192.0/19"}.Serve(ctx, listener)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	sum := sha256.Sum256(signer.ServerCA())
	return "https://" + listener.Addr().String(), hex.EncodeToString(sum[:])
}

func TestAsk(t *testing.T) {
	at, checksum := start(t)
	other := sha256.Sum256([]byte("another"))
	for name, tt := range map[string]struct {
		token, says string
		change      func(*identity.Request)
	}{
		"joins":             {token: "K10" + checksum + "::node:p:w"},
		"another password":  {token: "K10" + checksum + "::node:p", says: "401 Unauthorized: the token's password is not"},
		"another authority": {token: "K10" + hex.EncodeToString(other[:]) + "::node:p:w", says: "its authority is another"},
		"no address": {"K10" + checksum + "::node:p:w", "400 Bad Request: a node needs a name and an address", func(r *identity.Request) {
			r.Address = ""
		}},
		"too much": {"K10" + checksum + "::node:p:w", "400 Bad Request: reading the request", func(r *identity.Request) {
			r.Name = strings.Repeat("x", maxBytes)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := ParseToken(tt.token)
			require.NoError(t, err)
			request := identity.Request{Name: "web-2", Address: "198.18.0.3"}
			if tt.change != nil {
				tt.change(&request)
			}
			answer, err := ask(t.Context(), at, token, request)
			if tt.says != "" {
				require.ErrorIs(t, err, ErrRefused)
				require.ErrorContains(t, err, tt.says)
				require.NotContains(t, err.Error(), "p:w")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"198.18.128.0/18", "198.18.192.0/19"}, []string{answer.Pods, answer.Services})
			_, err = answer.Take(t.TempDir(), at)
			require.NoError(t, err)
		})
	}
}

// A server that is not there yet is waited for; who gives up tells why.
func TestAsk_waits(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	token, err := ParseToken("K10" + hex.EncodeToString(make([]byte, 32)) + "::node:p")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("not ready in time"))
	defer cancel()
	_, err = ask(ctx, "https://"+listener.Addr().String(), token, identity.Request{})
	require.ErrorContains(t, err, "not ready in time")
	require.ErrorContains(t, err, "connection refused")
}

func TestParseToken_refuses(t *testing.T) {
	sum := hex.EncodeToString(make([]byte, 32))
	for _, text := range []string{"", "password", "K10" + sum, "K10" + sum + "::node", "K10" + sum + "::node:", "K10abc::node:p", sum + "::node:p"} {
		_, err := ParseToken(text)
		require.ErrorContains(t, err, "token is not of the form", text)
	}
}
