package rest

import (
	"net/url"
	"strconv"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
)

// resources are all but droplets: the account with its SSH keys and tags, and the catalog.
func (a *api) resources() map[string]handler {
	acc := a.opts.Account
	return map[string]handler{
		"GET /v2/regions":      list("regions", func(*call) ([]godo.Region, error) { return account.Regions(), nil }),
		"GET /v2/account":      one("account", func(*call) (godo.Account, error) { return account.Info, nil }),
		"GET /v2/account/keys": list("ssh_keys", func(*call) ([]godo.Key, error) { return acc.Keys(), nil }),
		"POST /v2/account/keys": post("ssh_key", func(c *call, request godo.KeyCreateRequest) (godo.Key, error) {
			return acc.CreateKey(c.caller, request)
		}),
		"GET /v2/account/keys/{id}":    one("ssh_key", func(c *call) (godo.Key, error) { return acc.Key(c.r.PathValue("id")) }),
		"DELETE /v2/account/keys/{id}": remove(func(c *call) error { return acc.DeleteKey(c.caller, c.r.PathValue("id")) }),
		"POST /v2/tags": post("tag", func(c *call, request godo.TagCreateRequest) (godo.Tag, error) {
			return acc.CreateTag(c.caller, request.Name)
		}),
		"GET /v2/tags/{name}":    one("tag", func(c *call) (godo.Tag, error) { return acc.Tag(c.r.PathValue("name")) }),
		"DELETE /v2/tags/{name}": remove(func(c *call) error { return acc.DeleteTag(c.caller, c.r.PathValue("name")) }),
	}
}

const (
	defaultPerPage = 20
	maxPerPage     = 200
)

// page cuts the asked-for page out of all, and links to the others.
func page[T any](c *call, all []T) ([]T, *godo.Links) {
	query := c.r.URL.Query()
	perPage := positive(query.Get("per_page"), defaultPerPage, maxPerPage)
	pages := max(1, (len(all)+perPage-1)/perPage)
	number := positive(query.Get("page"), 1, 1<<20)
	from := min(len(all), (number-1)*perPage)
	to := min(len(all), from+perPage)
	cut := append([]T{}, all[from:to]...)
	if pages == 1 && number == 1 {
		return cut, &godo.Links{}
	}
	link := func(to int) string {
		query := c.r.URL.Query()
		query.Set("page", strconv.Itoa(to))
		return (&url.URL{Scheme: "https", Host: Host, Path: c.r.URL.Path, RawQuery: query.Encode()}).String()
	}
	found := &godo.Pages{}
	if number > 1 {
		found.First, found.Prev = link(1), link(min(number-1, pages))
	}
	if number < pages {
		found.Next, found.Last = link(number+1), link(pages)
	}
	return cut, &godo.Links{Pages: found}
}

// positive parses text, falling back for anything that is not a number from 1 on.
func positive(text string, fallback, limit int) int {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return fallback
	}
	return min(number, limit)
}
