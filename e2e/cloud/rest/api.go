package rest

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// Host is the public name of the real API, which clients think they talk to.
const Host = "api.digitalocean.com"

// Options configures the API.
type Options struct {
	Account *account.Account
	Tokens  *account.Tokens
	Faults  *fault.Set
	Ledger  *ledger.Ledger // fault hits are noted there
	Log     *slog.Logger
}

type api struct {
	opts   Options
	routes *http.ServeMux
}

// NewHandler returns the API as an HTTP handler.
func NewHandler(opts Options) http.Handler {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{opts: opts, routes: http.NewServeMux()}
	for _, routes := range []map[string]handler{a.resources(), a.droplets(), {
		"/": func(*call) error { return account.NotFound() },
	}} {
		for pattern, handle := range routes {
			a.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				caller, _ := r.Context().Value(callerKey).(account.Caller)
				c := &call{w: w, r: r, caller: caller}
				if err := handle(c); err != nil {
					a.fail(c, err)
				}
			})
		}
	}
	return http.HandlerFunc(a.serve)
}

// handler answers one request; its error becomes the API's error body.
type handler func(call *call) error

// one answers with what find gives, under its name in the API.
func one[T any](name string, find func(c *call) (T, error)) handler {
	return func(c *call) error {
		found, err := find(c)
		if err != nil {
			return err
		}
		return c.answer(http.StatusOK, map[string]any{name: found})
	}
}

// list answers with the asked-for page of what find gives, under its name in the API.
func list[T any](name string, find func(c *call) ([]T, error)) handler {
	return func(c *call) error {
		all, err := find(c)
		if err != nil {
			return err
		}
		cut, links := page(c, all)
		return c.answer(http.StatusOK, map[string]any{name: cut, "links": links, "meta": godo.Meta{Total: len(all)}})
	}
}

// post answers with what act makes of the request's body, under its name in the API.
func post[In, Out any](name string, act func(c *call, request In) (Out, error)) handler {
	return func(c *call) error {
		var request In
		if err := c.decode(&request); err != nil {
			return err
		}
		made, err := act(c, request)
		if err != nil {
			return err
		}
		return c.answer(http.StatusCreated, map[string]any{name: made})
	}
}

// remove answers with nothing when act has succeeded.
func remove(act func(c *call) error) handler {
	return func(c *call) error {
		if err := act(c); err != nil {
			return err
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// maxBody bounds a request's body.
const maxBody = 1 << 20

// call is one request with its answer.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	caller account.Caller
}

// contextKey marks what the outer layer hands to the handlers.
type contextKey int

const (
	callerKey contextKey = iota
	bootKey
)

// answer writes value as JSON with the status.
func (c *call) answer(status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // a client that went away cannot be told
	return nil
}

// decode reads the request's body as JSON.
func (c *call) decode(into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err != nil {
		return &account.Error{Status: http.StatusRequestEntityTooLarge, ID: "request_entity_too_large", Message: "The request is too large."}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &account.Error{Status: http.StatusBadRequest, ID: "bad_request", Message: "The request body is not valid JSON of the expected shape."}
	}
	return nil
}

// number returns a path value that must be an id.
func (c *call) number(name string) (int, error) {
	id, err := strconv.Atoi(c.r.PathValue(name))
	if err != nil {
		return 0, account.NotFound()
	}
	return id, nil
}

// fail answers with the error.
func (a *api) fail(c *call, err error) {
	var apiErr *account.Error
	if !errors.As(err, &apiErr) {
		a.opts.Log.Error("serving request", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
		apiErr = &account.Error{Status: http.StatusInternalServerError, ID: "server_error", Message: "Server Error"}
	}
	_ = c.answer(apiErr.Status, errorBody{ID: apiErr.ID, Message: apiErr.Message, RequestID: c.caller.RequestID})
}

// errorBody is how the API tells an error.
type errorBody struct {
	ID        string `json:"id"`
	Message   string `json:"message"`
	RequestID string `json:"request_id,omitempty"`
}
