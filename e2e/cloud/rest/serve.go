package rest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// serve is what happens to every request before and after its handler.
func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "bearer") {
		secret = ""
	}
	token, authorized := a.opts.Tokens.Check(strings.TrimSpace(secret))
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	caller := account.Caller{Token: token, RequestID: fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])}
	w.Header().Set("X-Request-Id", caller.RequestID)
	r = r.WithContext(context.WithValue(r.Context(), callerKey, caller))
	c := &call{w: w, r: r, caller: caller}

	hits := a.opts.Faults.Apply(fault.Request{
		Method: r.Method, Path: r.URL.Path, Name: peekName(r), Token: token, RequestID: caller.RequestID,
	})
	// Latencies are spent, and the last hit decides.
	var effect fault.Effect
	for _, hit := range hits {
		a.opts.Ledger.Append(ledger.Entry{Op: ledger.OpFault, Name: hit.Name, Token: hit.Token, RequestID: hit.RequestID, Cause: hit.Rule})
		if hit.Effect.Latency > 0 {
			select {
			case <-time.After(hit.Effect.Latency):
			case <-r.Context().Done():
			}
		}
		effect = hit.Effect
	}
	if effect.Boot != nil {
		r = r.WithContext(context.WithValue(r.Context(), bootKey, effect.Boot))
	}
	handle := func(w http.ResponseWriter) {
		inner := &call{w: w, r: r, caller: caller}
		switch {
		case !authorized:
			a.fail(inner, defaultError(http.StatusUnauthorized))
		default:
			a.routes.ServeHTTP(w, r)
		}
	}
	a.finish(c, effect, handle)
}

// finish runs the handler and answers, in the order the effect asks for.
func (a *api) finish(c *call, effect fault.Effect, handle func(http.ResponseWriter)) {
	if effect.Status == 0 && !effect.Drop {
		handle(c.w)
		return
	}
	if effect.After {
		handle(httptest.NewRecorder()) // acts; its answer is lost
	}
	if effect.Drop {
		panic(http.ErrAbortHandler) // net/http's way to close the connection
	}
	if effect.RetryAfter > 0 {
		seconds := int((effect.RetryAfter + time.Second - 1) / time.Second)
		c.w.Header().Set("Retry-After", fmt.Sprint(seconds))
		c.w.Header().Set("Ratelimit-Remaining", "0")
		c.w.Header().Set("Ratelimit-Reset", fmt.Sprint(time.Now().Add(effect.RetryAfter).Unix()))
	}
	err := defaultError(effect.Status)
	err.ID, err.Message = cmp.Or(effect.ErrorID, err.ID), cmp.Or(effect.Message, err.Message)
	a.fail(c, err)
}

// defaultError is what the real API says with a status.
func defaultError(status int) *account.Error {
	switch status {
	case http.StatusUnauthorized:
		return &account.Error{Status: status, ID: "Unauthorized", Message: "Unable to authenticate you"}
	case http.StatusForbidden:
		return &account.Error{Status: status, ID: "Forbidden", Message: "You are not authorized to perform this operation"}
	case http.StatusNotFound:
		return account.NotFound()
	case http.StatusTooManyRequests:
		return &account.Error{Status: status, ID: "too_many_requests", Message: "API Rate limit exceeded."}
	case http.StatusUnprocessableEntity:
		return account.Unprocessable("The request could not be processed.")
	case http.StatusServiceUnavailable:
		return &account.Error{Status: status, ID: "service_unavailable", Message: "Service Unavailable"}
	case http.StatusInternalServerError:
		return &account.Error{Status: status, ID: "server_error", Message: "Server Error"}
	}
	id := strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
	return &account.Error{Status: status, ID: id, Message: http.StatusText(status)}
}

// peekName returns the name in the body of a request, leaving the body unread.
func peekName(r *http.Request) string {
	if r.Method != http.MethodPost && r.Method != http.MethodPut || r.Body == nil {
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	var named struct {
		Name string `json:"name"`
	}
	if err != nil || json.Unmarshal(body, &named) != nil {
		return ""
	}
	return named.Name
}
