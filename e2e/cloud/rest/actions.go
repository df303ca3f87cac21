package rest

import (
	"github.com/digitalocean/godo"
)

func (a *api) actions() map[string]handler {
	return map[string]handler{
		"GET /v2/actions": list("actions", func(*call) ([]godo.Action, error) { return a.opts.Account.Actions(0), nil }),
		"GET /v2/actions/{action}": one("action", func(c *call) (godo.Action, error) {
			id, err := c.number("action")
			if err != nil {
				return godo.Action{}, err
			}
			return a.opts.Account.Action(id)
		}),
		"GET /v2/droplets/{id}/actions": list("actions", func(c *call) ([]godo.Action, error) {
			id, err := c.number("id")
			if err != nil {
				return nil, err
			}
			if _, err := a.opts.Account.Droplet(id); err != nil {
				return nil, err
			}
			return a.opts.Account.Actions(id), nil
		}),
		"GET /v2/droplets/{id}/actions/{action}": one("action", func(c *call) (godo.Action, error) {
			droplet, err := c.number("id")
			if err != nil {
				return godo.Action{}, err
			}
			id, err := c.number("action")
			if err != nil {
				return godo.Action{}, err
			}
			return a.opts.Account.DropletAction(droplet, id)
		}),
		"POST /v2/droplets/{id}/actions": a.actOnDroplet,
	}
}

// actOnDroplet looks for the id before it reads the body.
func (a *api) actOnDroplet(c *call) error {
	id, err := c.number("id")
	if err != nil {
		return err
	}
	return post("action", func(c *call, request struct {
		Type string `json:"type"`
	}) (godo.Action, error) {
		return a.opts.Account.Act(c.caller, id, request.Type)
	})(c)
}
