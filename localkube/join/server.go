package join

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/drover-project/drover/localkube/identity"
)

const (
	// Port is the one of k3s' and RKE2's supervisor.
	Port = "9345"

	caPath   = "/cacerts"
	nodePath = "/v1-localkube/node"

	maxBytes = 64 << 10
	timeout  = 10 * time.Second
)

// Server lets agents join.
type Server struct {
	// Password of agents.
	Password string
	Signer   *identity.Signer
	// Certificate is the server's certificate.
	Certificate identity.Pair
	// Pods and Services are the cluster's ranges.
	Pods, Services string
}

// Serve answers until the context ends.
func (s Server) Serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+caPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.Signer.ServerCA()) })
	mux.HandleFunc("POST "+nodePath, s.node)
	server := &http.Server{Handler: mux, ReadTimeout: timeout, WriteTimeout: timeout, MaxHeaderBytes: maxBytes}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(listener, s.Certificate.Certificate, s.Certificate.Key); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("letting agents join: %w", err)
	}
	return nil
}

func (s Server) node(w http.ResponseWriter, r *http.Request) {
	_, password, _ := r.BasicAuth()
	given, wanted := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(s.Password))
	if subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
		http.Error(w, "the token's password is not the one of this cluster's agents", http.StatusUnauthorized)
		return
	}
	var request identity.Request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBytes)).Decode(&request); err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.Signer.Sign(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer.Pods, answer.Services = s.Pods, s.Services
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // an agent that lost the answer asks again
}
