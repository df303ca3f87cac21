package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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

func setDropletLimit(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		var request limitRequest
		if err := decode(r, &request); err != nil {
			return nil, err
		}
		if request.Limit < 0 {
			return nil, fmt.Errorf("setting droplet limit: %d is negative", request.Limit)
		}
		cloud.Account().SetDropletLimit(request.Limit)
		return nil, nil
	}
}

func addFault(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		var rule fault.Rule
		if err := decode(r, &rule); err != nil {
			return nil, err
		}
		id, err := cloud.Faults().Add(rule)
		return idAnswer{id}, err
	}
}

func removeFault(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		if id := r.PathValue("id"); !cloud.Faults().Remove(id) {
			return nil, fmt.Errorf("removing fault: there is none with id %q", id)
		}
		return nil, nil
	}
}

func startServer(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		var request server.Request
		if err := decode(r, &request); err != nil {
			return nil, err
		}
		return cloud.StartServer(context.WithoutCancel(r.Context()), request)
	}
}

func addToken(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		var request tokenRequest
		if err := decode(r, &request); err != nil {
			return nil, err
		}
		return cloud.AddToken(request.Name, request.ReadOnly)
	}
}

func expireToken(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		var request expireRequest
		if err := decode(r, &request); err != nil {
			return nil, err
		}
		if request.At.IsZero() { // that would mean never
			return nil, errors.New("expiring token: it is not said when")
		}
		return nil, cloud.ExpireToken(r.PathValue("name"), request.At)
	}
}

func putFile(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		content, err := io.ReadAll(io.LimitReader(r.Body, maxFile+1))
		if err != nil {
			return nil, fmt.Errorf("reading file: %w", err)
		}
		if len(content) > maxFile {
			return nil, fmt.Errorf("reading file: it is larger than %d bytes", maxFile)
		}
		return digestAnswer{cloud.Files().Put(r.PathValue("name"), content)}, nil
	}
}

func setFileFault(cloud Cloud) handler {
	return func(r *http.Request) (any, error) {
		var request fileFaultRequest
		if err := decode(r, &request); err != nil {
			return nil, err
		}
		return nil, cloud.Files().SetFault(request.Name, request.Fault)
	}
}
