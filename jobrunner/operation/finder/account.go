package finder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/clouds"
)

const (
	requestTimeout = 30 * time.Second
	pageSize       = 200
	maxPages       = 50
	sdkRetries     = 3
)

// accountAPI is a cloud whose credential sees the servers of one account, or of one project of it,
// through the cloud's own SDK.
type accountAPI interface {
	// page asks for a page of the servers, with our tags or without; with a value, of those that
	// have it in a tag of ours.
	page(ctx context.Context, tag, value, cursor string) ([]Server, page, error)
	// server returns the server with an ID, with our tags or without any; if it does not exist, the
	// result has no ID.
	server(ctx context.Context, id string) (Server, error)
	destroy(ctx context.Context, server Server) error
	Sweep(ctx context.Context, machine Machine) error
}

// accountCloud finds servers by the tags that a driver sets in the request that creates them.
type accountCloud struct {
	wholeAccount
	accountAPI
	driver string
}

var _ cloud = accountCloud{}

// list implements cloud.
func (a accountCloud) list(ctx context.Context, tag, value string) ([]Server, error) {
	listed := map[string]bool{}
	var found []Server
	err := allPages(func(cursor string) (page, error) {
		servers, at, err := a.page(ctx, tag, value, cursor)
		for _, server := range servers {
			// If a server is created during the listing, others move to the next page and are
			// listed twice.
			if server.Tags != nil && server.ID != "" && !listed[server.ID] {
				listed[server.ID] = true
				found = append(found, server)
			}
		}
		at.items = len(servers)
		return at, err
	})
	return found, err
}

// get implements cloud. A driver writes the ID late: until then it is 0.
func (a accountCloud) get(ctx context.Context, server Server) (Server, error) {
	id := cmp.Or(server.ID, recordText(server.Record, clouds.Of(a.driver).ID))
	if id == "" || id == "0" {
		return Server{}, nil
	}
	return a.server(ctx, id)
}

// page is a position in a list: the number of items on the page and in the whole list, and the next
// page by its cursor or its number. The last page has neither. total is 0 if the API does not
// return it. The content of a numbered page can change.
type page struct {
	items, total int
	next         string
	nextNumber   int
}

// errNotWhole means that a list ended before its announced number of items.
var errNotWhole = errors.New("the list is incomplete: try again later")

// allPages requests all pages of a list. It reads a long list with numbered pages twice: if an item
// disappears during the listing, others move to a page that was already read and would be missed.
func allPages(ask func(cursor string) (page, error)) error {
	again, err := everyPage(ask)
	if err == nil && again {
		_, err = everyPage(ask)
	}
	return err
}

func everyPage(ask func(cursor string) (page, error)) (numbered bool, err error) {
	items, cursor := 0, ""
	for range maxPages {
		at, err := ask(cursor)
		if err != nil {
			return false, err
		}
		items += at.items
		cursor = at.next
		if at.nextNumber > 0 {
			numbered, cursor = true, strconv.Itoa(at.nextNumber)
		}
		if cursor != "" {
			continue
		}
		if items < at.total {
			return false, errNotWhole
		}
		return numbered, nil
	}
	return false, errTooMany
}

// pageNumber returns the page number in a cursor; the first page has an empty cursor.
func pageNumber(cursor string) int {
	at, _ := strconv.Atoi(cursor)
	return max(at, 1)
}

// errNoJSON is for responses that do not come from the API: some SDKs read a proxy's page as a list
// without servers.
var errNoJSON = errors.New("the response is not from the cloud's API")

// answers is a transport that rejects every response that is not JSON, and remembers the last
// status, which some SDKs hide from their callers. It uses the proxy of the environment.
type answers struct {
	status atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	const jsonType = "application/json"
	a.status.Store(0)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusNoContent {
		a.status.Store(http.StatusNoContent)
		return response, nil
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != jsonType {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w (HTTP %s)", errNoJSON, response.Status)
	}
	a.status.Store(int32(response.StatusCode))
	// govultr and linodego take no parameters beside the type.
	response.Header.Set("Content-Type", jsonType)
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxAnswer), response.Body}
	return response, nil
}
