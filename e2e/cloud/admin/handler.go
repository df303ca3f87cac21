package admin

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// The bounds on what may be sent: a JSON request, and a file to serve.
const (
	maxRequest = 1 << 20
	maxFile    = 512 << 20
)

// Cloud is what the endpoint steers.
type Cloud interface {
	TokenKeeper
	ServerKeeper
	Parts
}

// TokenKeeper changes API tokens.
type TokenKeeper interface {
	Tokens() []account.Token
	AddToken(name string, readOnly bool) (account.Token, error)
	RevokeToken(name string) error
	RestoreToken(name string) error
	ExpireToken(name string, at time.Time) error
}

// ServerKeeper starts and stops servers outside of the droplet API.
type ServerKeeper interface {
	StartServer(ctx context.Context, request server.Request) (server.Info, error)
	StopServer(ctx context.Context, name string) error
	Servers() []server.Info
}

// Parts gives the parts that need no wrapping.
type Parts interface {
	Account() *account.Account
	Faults() *fault.Set
	Files() *files.Server
	Ledger() *ledger.Ledger
	Leftovers() []string
}

// handler answers one request with a value to encode, or nil for none.
type handler func(r *http.Request) (any, error)

// NewHandler returns the admin endpoint; requests must carry the secret as a bearer token.
func NewHandler(cloud Cloud, secret string) http.Handler {
	routes := http.NewServeMux()
	for _, handlers := range []map[string]handler{records(cloud), droplets(cloud), faults(cloud), servers(cloud), tokens(cloud), served(cloud)} {
		for pattern, handle := range handlers {
			routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { answer(w, r, handle) })
		}
	}
	want := []byte("Bearer " + secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "wrong admin secret", http.StatusUnauthorized)
			return
		}
		routes.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, r *http.Request, handle handler) {
	value, err := handle(r)
	if err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, server.ErrNotFound) || account.IsNotFound(err) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	if value == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that went away cannot be told
}

func decode(r *http.Request, into any) error {
	content, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		return fmt.Errorf("reading request: %w", err)
	}
	if len(content) > maxRequest {
		return fmt.Errorf("reading request: it is larger than %d bytes", maxRequest)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields() // a misspelt count would be a fault without end
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("parsing request: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("parsing request: something follows it")
	}
	return nil
}
