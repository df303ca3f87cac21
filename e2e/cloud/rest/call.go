package rest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/drover-project/drover/e2e/cloud/account"
)

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
