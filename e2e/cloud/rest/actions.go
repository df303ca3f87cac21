package rest

import (
	"net/http"

	"github.com/digitalocean/godo"
)

type actionRoot struct {
	Action godo.Action `json:"action"`
}

type actionsRoot struct {
	Actions []godo.Action `json:"actions"`
	paged
}

func (a *api) actOnDroplet(c *call) error {
	id, err := c.number("id")
	if err != nil {
		return err
	}
	var body struct {
		Type string `json:"type"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	action, err := a.opts.Account.Act(c.caller, id, body.Type)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, actionRoot{action})
}

func (a *api) getAction(c *call) error {
	id, err := c.number("action")
	if err != nil {
		return err
	}
	action, err := a.opts.Account.Action(id)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, actionRoot{action})
}

func (a *api) getDropletAction(c *call) error {
	droplet, err := c.number("id")
	if err != nil {
		return err
	}
	id, err := c.number("action")
	if err != nil {
		return err
	}
	action, err := a.opts.Account.DropletAction(droplet, id)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, actionRoot{action})
}

func (a *api) listActions(c *call) error {
	actions, where := page(c, a.opts.Account.Actions(0))
	return c.answer(http.StatusOK, actionsRoot{actions, where})
}

func (a *api) listDropletActions(c *call) error {
	id, err := c.number("id")
	if err != nil {
		return err
	}
	if _, err := a.opts.Account.Droplet(id); err != nil {
		return err
	}
	actions, where := page(c, a.opts.Account.Actions(id))
	return c.answer(http.StatusOK, actionsRoot{actions, where})
}
