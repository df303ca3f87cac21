package rest

import (
	"log/slog"
	"net/http"

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
	// RateLimit is the number of requests per token and hour that is enforced.
	// 0 enforces nothing; the headers then tell the real API's 5,000.
	RateLimit int
	Log       *slog.Logger
}

type api struct {
	opts   Options
	limits *limiter
	routes *http.ServeMux
}

// NewHandler returns the API as an HTTP handler.
func NewHandler(opts Options) http.Handler {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{opts: opts, limits: newLimiter(opts.RateLimit), routes: http.NewServeMux()}
	for pattern, handle := range map[string]handler{
		"GET /v2/account": a.getAccount,

		"GET /v2/account/keys":         a.listKeys,
		"POST /v2/account/keys":        a.createKey,
		"GET /v2/account/keys/{id}":    a.getKey,
		"PUT /v2/account/keys/{id}":    a.renameKey,
		"DELETE /v2/account/keys/{id}": a.deleteKey,

		"GET /v2/droplets":                       a.listDroplets,
		"POST /v2/droplets":                      a.createDroplets,
		"DELETE /v2/droplets":                    a.deleteDropletsByTag,
		"GET /v2/droplets/{id}":                  a.getDroplet,
		"DELETE /v2/droplets/{id}":               a.deleteDroplet,
		"GET /v2/droplets/{id}/actions":          a.listDropletActions,
		"POST /v2/droplets/{id}/actions":         a.actOnDroplet,
		"GET /v2/droplets/{id}/actions/{action}": a.getDropletAction,
		"GET /v2/actions":                        a.listActions,
		"GET /v2/actions/{action}":               a.getAction,
		"GET /v2/regions":                        a.listRegions,
		"GET /v2/sizes":                          a.listSizes,
		"GET /v2/images":                         a.listImages,
		"GET /v2/images/{id}":                    a.getImage,
		"GET /v2/tags":                           a.listTags,
		"POST /v2/tags":                          a.createTag,
		"GET /v2/tags/{name}":                    a.getTag,
		"DELETE /v2/tags/{name}":                 a.deleteTag,
		"POST /v2/tags/{name}/resources":         a.tagResources(true),
		"DELETE /v2/tags/{name}/resources":       a.tagResources(false),
		"/":                                      a.unknown,
	} {
		a.routes.Handle(pattern, a.adapt(handle))
	}
	return http.HandlerFunc(a.serve)
}

// handler answers one request; its error becomes the API's error body.
type handler func(call *call) error

func (a *api) adapt(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, caller: callerOf(r.Context())}
		if err := handle(c); err != nil {
			a.fail(c, err)
		}
	})
}

func (a *api) unknown(*call) error { return account.NotFound() }
