package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// serve wraps the handler of every request.
func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "bearer") {
		secret = ""
	}
	token, authorized := a.opts.Tokens.Check(strings.TrimSpace(secret))
	c := &call{w: w, r: r, caller: caller{Caller: account.Caller{Token: token, RequestID: string(uuid.NewUUID())}}}
	w.Header().Set("X-Request-Id", c.caller.RequestID)

	hits := a.opts.Faults.Apply(fault.Request{Method: r.Method, Path: r.URL.Path, Name: peekName(r), Token: token, RequestID: c.caller.RequestID})
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
		c.caller.boot = *effect.Boot
	}
	act := func(w http.ResponseWriter, r *http.Request) {
		if !authorized {
			a.fail(&call{w: w, r: r, caller: c.caller}, defaultError(http.StatusUnauthorized))
			return
		}
		a.routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c.caller)))
	}
	if effect.Repeat {
		actFirst(r, act)
	}
	a.finish(c, effect, func(w http.ResponseWriter) { act(w, r) })
}

// actFirst lets a request act while it keeps its body for the next time. The answer is lost.
func actFirst(r *http.Request, act func(http.ResponseWriter, *http.Request)) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return
	}
	first := r.Clone(r.Context())
	first.Body, r.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
	act(httptest.NewRecorder(), first)
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

// saidWith maps a status to the real API's message, if it is not the status's own text.
var saidWith = map[int][2]string{
	http.StatusUnauthorized:        {"Unauthorized", "Unable to authenticate you"},
	http.StatusForbidden:           {"Forbidden", "You are not authorized to perform this operation"},
	http.StatusNotFound:            {account.NotFound().ID, account.NotFound().Message},
	http.StatusTooManyRequests:     {"too_many_requests", "API Rate limit exceeded."},
	http.StatusUnprocessableEntity: {"unprocessable_entity", "The request could not be processed."},
	http.StatusInternalServerError: {"server_error", "Server Error"},
}

func defaultError(status int) *account.Error {
	if said, known := saidWith[status]; known {
		return &account.Error{Status: status, ID: said[0], Message: said[1]}
	}
	text := http.StatusText(status)
	return &account.Error{Status: status, ID: strings.ReplaceAll(strings.ToLower(text), " ", "_"), Message: text}
}

// peekName returns the name in the body of a request, leaving the body unread.
func peekName(r *http.Request) string {
	if r.Method != http.MethodPost || r.Body == nil {
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
