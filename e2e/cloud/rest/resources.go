package rest

import (
	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
)

// resources are all but droplets: the account with its SSH keys and tags, and the catalog.
func (a *api) resources() map[string]handler {
	acc := a.opts.Account
	return map[string]handler{
		"GET /v2/regions":      list("regions", func(*call) ([]godo.Region, error) { return account.Regions(), nil }),
		"GET /v2/account":      one("account", func(*call) (godo.Account, error) { return acc.Info(), nil }),
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
