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
	"strconv"

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

// Cloud is what the endpoint steers; package cloud has the one there is.
type Cloud interface {
	AddToken(name string, readOnly bool) (account.Token, error)
	RevokeToken(name string) error
	StartServer(ctx context.Context, request server.Request) (server.Info, error)
	StopServer(ctx context.Context, name string) error
	PowerCycle(ctx context.Context, name string) error
	Servers() []server.Info
	Leftovers() []string
}

// Parts are what of a cloud is steered and read as it is.
type Parts struct {
	Account *account.Account
	Faults  *fault.Set    // of the API
	Files   *files.Server // for download tests
	Ledger  *ledger.Ledger
}

type idAnswer struct {
	ID string `json:"id"`
}

type tokenRequest struct {
	Name     string `json:"name"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

type digestAnswer struct {
	SHA256 string `json:"sha256"`
}

type fileFaultRequest struct {
	Name  string      `json:"name"`
	Fault files.Fault `json:"fault"`
}

// handler answers one request with a value to encode, or nil for none.
type handler func(r *http.Request) (any, error)

// taking decodes the request for act.
func taking[In any](act func(r *http.Request, request In) (any, error)) handler {
	return func(r *http.Request) (any, error) {
		var request In
		content, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
		if err != nil {
			return nil, fmt.Errorf("reading request: %w", err)
		}
		if len(content) > maxRequest {
			return nil, fmt.Errorf("reading request: it is larger than %d bytes", maxRequest)
		}
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields() // a misspelt count would be a fault without end
		if err := decoder.Decode(&request); err != nil {
			return nil, fmt.Errorf("parsing request: %w", err)
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("parsing request: something follows it")
		}
		return act(r, request)
	}
}

// routes are the requests there are. What one began goes on when its client has gone.
func routes(cloud Cloud, parts Parts) map[string]handler {
	return map[string]handler{
		"GET /ledger":    func(*http.Request) (any, error) { return parts.Ledger.Entries(), nil },
		"GET /live":      func(*http.Request) (any, error) { return parts.Ledger.Live(), nil },
		"GET /leftovers": func(*http.Request) (any, error) { return cloud.Leftovers(), nil },
		"GET /droplets":  func(*http.Request) (any, error) { return parts.Account.Droplets("", ""), nil },
		"DELETE /droplets/{id}": func(r *http.Request) (any, error) {
			id, err := strconv.Atoi(r.PathValue("id"))
			if err != nil {
				return nil, fmt.Errorf("parsing droplet id: %w", err)
			}
			return nil, parts.Account.DeleteDroplet(context.WithoutCancel(r.Context()), account.Vanished, id)
		},
		"POST /faults": taking(func(_ *http.Request, rule fault.Rule) (any, error) {
			id, err := parts.Faults.Add(rule)
			return idAnswer{id}, err
		}),
		"DELETE /faults": func(*http.Request) (any, error) { parts.Faults.Clear(); return nil, nil },
		"DELETE /faults/{id}": func(r *http.Request) (any, error) {
			if !parts.Faults.Remove(r.PathValue("id")) {
				return nil, fmt.Errorf("clearing fault: there is none with the id %q", r.PathValue("id"))
			}
			return nil, nil
		},
		"GET /hits":    func(*http.Request) (any, error) { return parts.Faults.Hits(), nil },
		"GET /servers": func(*http.Request) (any, error) { return cloud.Servers(), nil },
		"POST /servers": taking(func(r *http.Request, request server.Request) (any, error) {
			return cloud.StartServer(context.WithoutCancel(r.Context()), request)
		}),
		"DELETE /servers/{name}": func(r *http.Request) (any, error) {
			return nil, cloud.StopServer(context.WithoutCancel(r.Context()), r.PathValue("name"))
		},
		"POST /servers/{name}/power-cycle": func(r *http.Request) (any, error) {
			return nil, cloud.PowerCycle(context.WithoutCancel(r.Context()), r.PathValue("name"))
		},
		"POST /tokens": taking(func(_ *http.Request, request tokenRequest) (any, error) {
			return cloud.AddToken(request.Name, request.ReadOnly)
		}),
		"POST /tokens/{name}/revoke": func(r *http.Request) (any, error) { return nil, cloud.RevokeToken(r.PathValue("name")) },
		"PUT /files/{name...}": func(r *http.Request) (any, error) {
			content, err := io.ReadAll(io.LimitReader(r.Body, maxFile+1))
			if err != nil {
				return nil, fmt.Errorf("reading file: %w", err)
			}
			if len(content) > maxFile {
				return nil, fmt.Errorf("reading file: it is larger than %d bytes", maxFile)
			}
			return digestAnswer{parts.Files.Put(r.PathValue("name"), content)}, nil
		},
		"PUT /filefaults": taking(func(_ *http.Request, request fileFaultRequest) (any, error) {
			return nil, parts.Files.SetFault(request.Name, request.Fault)
		}),
	}
}

// NewHandler returns the admin endpoint; requests must carry the secret as a bearer token.
func NewHandler(cloud Cloud, parts Parts, secret string) http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range routes(cloud, parts) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			value, err := handle(r)
			switch {
			case errors.Is(err, server.ErrNotFound) || account.IsNotFound(err):
				http.Error(w, err.Error(), http.StatusNotFound)
			case err != nil:
				http.Error(w, err.Error(), http.StatusBadRequest)
			case value == nil:
				w.WriteHeader(http.StatusNoContent)
			default:
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(value) // a client that went away cannot be told
			}
		})
	}
	want := []byte("Bearer " + secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "wrong admin secret", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
