package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/server"
)

type limitRequest struct {
	Limit int `json:"limit"`
}

type idAnswer struct {
	ID string `json:"id"`
}

type tokenRequest struct {
	Name     string `json:"name"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

type expireRequest struct {
	At time.Time `json:"at"`
}

type digestAnswer struct {
	SHA256 string `json:"sha256"`
}

type fileFaultRequest struct {
	Name  string      `json:"name"`
	Fault files.Fault `json:"fault"`
}

// taking decodes the request for act.
func taking[In any](act func(r *http.Request, request In) (any, error)) handler {
	return func(r *http.Request) (any, error) {
		var request In
		if err := decode(r, &request); err != nil {
			return nil, err
		}
		return act(r, request)
	}
}

func records(cloud Cloud) map[string]handler {
	return map[string]handler{
		"GET /ledger":    func(*http.Request) (any, error) { return cloud.Ledger().Entries(), nil },
		"GET /records":   func(*http.Request) (any, error) { return cloud.Ledger().Records(), nil },
		"GET /live":      func(*http.Request) (any, error) { return cloud.Ledger().Live(), nil },
		"GET /leftovers": func(*http.Request) (any, error) { return append([]string{}, cloud.Leftovers()...), nil },
	}
}

func droplets(cloud Cloud) map[string]handler {
	// with hands the droplet's id to act.
	with := func(act func(ctx context.Context, id int) (any, error)) handler {
		return func(r *http.Request) (any, error) {
			id, err := strconv.Atoi(r.PathValue("id"))
			if err != nil {
				return nil, fmt.Errorf("parsing droplet id: %w", err)
			}
			return act(context.WithoutCancel(r.Context()), id)
		}
	}
	return map[string]handler{
		"GET /droplets":               func(*http.Request) (any, error) { return cloud.Account().Droplets("", ""), nil },
		"DELETE /droplets/{id}":       with(func(ctx context.Context, id int) (any, error) { return nil, cloud.Account().Vanish(ctx, id) }),
		"GET /droplets/{id}/userdata": with(func(_ context.Context, id int) (any, error) { return cloud.Account().UserData(id) }),
		"PUT /limits/droplets": taking(func(_ *http.Request, request limitRequest) (any, error) {
			if request.Limit < 0 {
				return nil, fmt.Errorf("setting droplet limit: %d is negative", request.Limit)
			}
			cloud.Account().SetDropletLimit(request.Limit)
			return nil, nil
		}),
	}
}

func faults(cloud Cloud) map[string]handler {
	return map[string]handler{
		"GET /faults": func(*http.Request) (any, error) { return cloud.Faults().List(), nil },
		"POST /faults": taking(func(_ *http.Request, rule fault.Rule) (any, error) {
			id, err := cloud.Faults().Add(rule)
			return idAnswer{id}, err
		}),
		"DELETE /faults": func(*http.Request) (any, error) { cloud.Faults().Clear(); return nil, nil },
		"DELETE /faults/{id}": func(r *http.Request) (any, error) {
			if id := r.PathValue("id"); !cloud.Faults().Remove(id) {
				return nil, fmt.Errorf("removing fault: there is none with id %q", id)
			}
			return nil, nil
		},
		"GET /hits": func(*http.Request) (any, error) { return append([]fault.Hit{}, cloud.Faults().Hits()...), nil },
	}
}

func servers(cloud Cloud) map[string]handler {
	return map[string]handler{
		"GET /servers": func(*http.Request) (any, error) { return cloud.Servers(), nil },
		"POST /servers": taking(func(r *http.Request, request server.Request) (any, error) {
			return cloud.StartServer(context.WithoutCancel(r.Context()), request)
		}),
		"DELETE /servers/{name}": func(r *http.Request) (any, error) {
			return nil, cloud.StopServer(context.WithoutCancel(r.Context()), r.PathValue("name"))
		},
	}
}

func tokens(cloud Cloud) map[string]handler {
	return map[string]handler{
		"GET /tokens": func(*http.Request) (any, error) { return cloud.Tokens(), nil },
		"POST /tokens": taking(func(_ *http.Request, request tokenRequest) (any, error) {
			return cloud.AddToken(request.Name, request.ReadOnly)
		}),
		"POST /tokens/{name}/revoke":  func(r *http.Request) (any, error) { return nil, cloud.RevokeToken(r.PathValue("name")) },
		"POST /tokens/{name}/restore": func(r *http.Request) (any, error) { return nil, cloud.RestoreToken(r.PathValue("name")) },
		"POST /tokens/{name}/expire": taking(func(r *http.Request, request expireRequest) (any, error) {
			if request.At.IsZero() { // that would mean never
				return nil, errors.New("expiring token: it is not said when")
			}
			return nil, cloud.ExpireToken(r.PathValue("name"), request.At)
		}),
	}
}

// served are the files that drivers and servers download.
func served(cloud Cloud) map[string]handler {
	return map[string]handler{
		"GET /files": func(*http.Request) (any, error) { return append([]string{}, cloud.Files().Names()...), nil },
		"PUT /files/{name...}": func(r *http.Request) (any, error) {
			content, err := io.ReadAll(io.LimitReader(r.Body, maxFile+1))
			if err != nil {
				return nil, fmt.Errorf("reading file: %w", err)
			}
			if len(content) > maxFile {
				return nil, fmt.Errorf("reading file: it is larger than %d bytes", maxFile)
			}
			return digestAnswer{cloud.Files().Put(r.PathValue("name"), content)}, nil
		},
		"DELETE /files/{name...}": func(r *http.Request) (any, error) { cloud.Files().Delete(r.PathValue("name")); return nil, nil },
		"PUT /filefaults": taking(func(_ *http.Request, request fileFaultRequest) (any, error) {
			return nil, cloud.Files().SetFault(request.Name, request.Fault)
		}),
	}
}
