package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/drover-project/drover/localkube/pki"
)

// Cluster is what the handler needs of the server it runs in.
type Cluster interface {
	// AddAgent issues the identities of a node.
	AddAgent(ctx context.Context, req AgentRequest) (AgentResponse, error)
	// AddServer makes an etcd member that does not vote yet.
	AddServer(ctx context.Context, req ServerRequest) (ServerResponse, error)
	// Promote lets a member vote; it fails while the member lags behind.
	Promote(ctx context.Context, req PromoteRequest) error
}

// ErrDenied is what a Cluster wraps when it knows the caller and says no, and
// what a Client wraps when asking again will not help.
var ErrDenied = errors.New("denied")

// NewHandler serves the join protocol.
func NewHandler(store *pki.Store, cluster Cluster) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/ca", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(store.Cluster.CertPEM()) // the caller will notice
	})
	mux.Handle("POST /v1/agent", endpoint(store, pki.RoleAgent, cluster.AddAgent))
	mux.Handle("POST /v1/server", endpoint(store, pki.RoleServer, cluster.AddServer))
	mux.Handle("POST /v1/server/promote", endpoint(store, pki.RoleServer,
		func(ctx context.Context, req PromoteRequest) (struct{}, error) {
			return struct{}{}, cluster.Promote(ctx, req)
		}))
	return mux
}

// endpoint admits, decodes, validates, acts and encodes.
func endpoint[In, Out any](store *pki.Store, role pki.Role, act func(context.Context, In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := pki.ErrTokenUnknown
		if secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			err = store.Admits(role, secret)
		}
		switch {
		case errors.Is(err, pki.ErrTokenExpired):
			w.Header().Set(challengeHeader, expiredChallenge)
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		case errors.Is(err, pki.ErrTokenUnknown):
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		case err != nil:
			// What is wrong with the server's own files is for its owner.
			http.Error(w, "the server cannot read its own join token", http.StatusServiceUnavailable)
			return
		}
		in, err := decode[In](http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := act(r.Context(), in)
		if err != nil {
			status := http.StatusServiceUnavailable
			if errors.Is(err, ErrDenied) {
				status = http.StatusForbidden
			}
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the caller will notice
	})
}

// The header that tells a machine that its token was good once.
const (
	challengeHeader  = "WWW-Authenticate"
	expiredChallenge = `Bearer error="invalid_token", error_description="expired"`
)

func decode[T any](body io.Reader) (T, error) {
	var in T
	if err := json.NewDecoder(body).Decode(&in); err != nil {
		return in, fmt.Errorf("reading request: %w", err)
	}
	if checked, ok := any(in).(interface{ Validate() error }); ok {
		return in, checked.Validate()
	}
	return in, nil
}
