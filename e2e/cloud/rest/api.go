package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

// Host is the public name of the real API, which clients think they talk to.
const Host = "api.digitalocean.com"

const (
	// maxBody bounds a request's body.
	maxBody = 1 << 20
	// destroyTimeout bounds the removal of a server, which goes on when the
	// client has gone.
	destroyTimeout = time.Minute
	// answerWithin limits the time to answer a creation. As with the real API, a server's state is
	// often ahead of the answer, which saves drivers a round of polling.
	answerWithin = 250 * time.Millisecond

	defaultPerPage = 20
	maxPerPage     = 200
)

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
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	a := &api{opts: opts, routes: http.NewServeMux()}
	for pattern, handle := range a.handlers() {
		a.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			caller, _ := r.Context().Value(callerKey{}).(caller)
			c := &call{w: w, r: r, caller: caller}
			if err := handle(c); err != nil {
				a.fail(c, err)
			}
		})
	}
	return http.HandlerFunc(a.serve)
}

// handlers implement the supported part of the API: droplets, and the account with its regions, SSH
// keys and tags.
func (a *api) handlers() map[string]handler {
	acc := a.opts.Account
	return map[string]handler{
		"/":               func(*call) error { return account.NotFound() },
		"GET /v2/regions": list("regions", func(*call) []godo.Region { return account.Regions() }),
		"GET /v2/account": one("account", func(*call) (godo.Account, error) { return account.Info, nil }),

		"GET /v2/account/keys": list("ssh_keys", func(*call) []godo.Key { return acc.Keys() }),
		"POST /v2/account/keys": post("ssh_key", func(c *call, request godo.KeyCreateRequest) (godo.Key, error) {
			return acc.CreateKey(c.caller.Caller, request)
		}),
		"GET /v2/account/keys/{id}":    one("ssh_key", func(c *call) (godo.Key, error) { return acc.Key(c.r.PathValue("id")) }),
		"DELETE /v2/account/keys/{id}": remove(func(c *call) error { return acc.DeleteKey(c.caller.Caller, c.r.PathValue("id")) }),

		"POST /v2/tags": post("tag", func(c *call, request godo.TagCreateRequest) (godo.Tag, error) {
			return acc.CreateTag(c.caller.Caller, request.Name)
		}),
		"GET /v2/tags/{name}":    one("tag", func(c *call) (godo.Tag, error) { return acc.Tag(c.r.PathValue("name")) }),
		"DELETE /v2/tags/{name}": remove(func(c *call) error { return acc.DeleteTag(c.caller.Caller, c.r.PathValue("name")) }),

		"GET /v2/droplets": list("droplets", func(c *call) []godo.Droplet {
			query := c.r.URL.Query()
			if query.Get("type") == "gpus" {
				return nil
			}
			return acc.Droplets(query.Get("name"), query.Get("tag_name"))
		}),
		"POST /v2/droplets": func(c *call) error {
			var request account.DropletRequest
			if err := c.decode(&request); err != nil {
				return err
			}
			made, err := acc.CreateDroplet(c.caller.Caller, request, c.caller.boot)
			if err != nil {
				return err
			}
			acc.AwaitBoot(c.r.Context(), made.ID, answerWithin)
			return c.answer(http.StatusAccepted, map[string]any{"droplet": made, "links": godo.Links{}})
		},
		"GET /v2/droplets/{id}": one("droplet", func(c *call) (godo.Droplet, error) { return acc.Droplet(c.number()) }),
		"DELETE /v2/droplets/{id}": remove(func(c *call) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), destroyTimeout)
			defer cancel()
			return acc.DeleteDroplet(ctx, c.caller.Caller, c.number())
		}),
	}
}

// handler answers one request; its error becomes the API's error body.
type handler func(call *call) error

// one answers with the result of find, under its name in the API.
func one[T any](name string, find func(c *call) (T, error)) handler {
	return func(c *call) error {
		found, err := find(c)
		if err != nil {
			return err
		}
		return c.answer(http.StatusOK, map[string]any{name: found})
	}
}

// list answers with the requested page of find's result, under its name in the API, and links to
// the other pages.
func list[T any](name string, find func(c *call) []T) handler {
	return func(c *call) error {
		all, query := find(c), c.r.URL.Query()
		perPage := positive(query.Get("per_page"), defaultPerPage, maxPerPage)
		last := max(1, (len(all)+perPage-1)/perPage)
		number := positive(query.Get("page"), 1, 1<<20)
		from := min(len(all), (number-1)*perPage)
		link := func(to int) string {
			query.Set("page", strconv.Itoa(to))
			return (&url.URL{Scheme: "https", Host: Host, Path: c.r.URL.Path, RawQuery: query.Encode()}).String()
		}
		links := &godo.Links{}
		if last > 1 || number > 1 {
			links.Pages = &godo.Pages{}
		}
		if number > 1 {
			links.Pages.First, links.Pages.Prev = link(1), link(min(number-1, last))
		}
		if number < last {
			links.Pages.Next, links.Pages.Last = link(number+1), link(last)
		}
		page := append([]T{}, all[from:min(len(all), from+perPage)]...) // without any the API says [], not null
		return c.answer(http.StatusOK, map[string]any{name: page, "links": links, "meta": godo.Meta{Total: len(all)}})
	}
}

// positive parses text, falling back for anything that is not a number from 1 on.
func positive(text string, fallback, limit int) int {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return fallback
	}
	return min(number, limit)
}

// post answers with act's result for the request's body, under its name in the API.
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

// call is one request with its answer.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	caller caller
}

// caller identifies the caller, and the faults of the servers that it makes. It is in the context
// of its request.
type caller struct {
	account.Caller
	boot fault.Boot
}

type callerKey struct{}

// answer writes value as JSON with the status.
func (c *call) answer(status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // the error of a disconnected client has no recipient
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

// number returns the id in the path, or 0, which no object has, if the id is not a number.
func (c *call) number() int {
	id, _ := strconv.Atoi(c.r.PathValue("id"))
	return id
}

// fail answers with the error.
func (a *api) fail(c *call, err error) {
	var apiErr *account.Error
	if !errors.As(err, &apiErr) {
		a.opts.Log.Error("serving request", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
		apiErr = defaultError(http.StatusInternalServerError)
	}
	_ = c.answer(apiErr.Status, map[string]string{"id": apiErr.ID, "message": apiErr.Message, "request_id": c.caller.RequestID})
}
