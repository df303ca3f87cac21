package rest

import (
	"github.com/digitalocean/godo"
)

// keys are the account and its SSH keys.
func (a *api) keys() map[string]handler {
	return map[string]handler{
		"GET /v2/account":      one("account", func(*call) (godo.Account, error) { return a.opts.Account.Info(), nil }),
		"GET /v2/account/keys": list("ssh_keys", func(*call) ([]godo.Key, error) { return a.opts.Account.Keys(), nil }),
		"POST /v2/account/keys": post("ssh_key", func(c *call, request godo.KeyCreateRequest) (godo.Key, error) {
			return a.opts.Account.CreateKey(c.caller, request)
		}),
		"GET /v2/account/keys/{id}": one("ssh_key", func(c *call) (godo.Key, error) { return a.opts.Account.Key(c.r.PathValue("id")) }),
		"PUT /v2/account/keys/{id}": one("ssh_key", func(c *call) (godo.Key, error) {
			var request godo.KeyUpdateRequest
			if err := c.decode(&request); err != nil {
				return godo.Key{}, err
			}
			return a.opts.Account.RenameKey(c.caller, c.r.PathValue("id"), request.Name)
		}),
		"DELETE /v2/account/keys/{id}": remove(func(c *call) error { return a.opts.Account.DeleteKey(c.caller, c.r.PathValue("id")) }),
	}
}
