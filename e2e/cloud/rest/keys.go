package rest

import (
	"net/http"

	"github.com/digitalocean/godo"
)

type accountRoot struct {
	Account godo.Account `json:"account"`
}

type keyRoot struct {
	Key godo.Key `json:"ssh_key"`
}

type keysRoot struct {
	Keys []godo.Key `json:"ssh_keys"`
	paged
}

func (a *api) getAccount(c *call) error {
	return c.answer(http.StatusOK, accountRoot{a.opts.Account.Info()})
}

func (a *api) listKeys(c *call) error {
	keys, where := page(c, a.opts.Account.Keys())
	return c.answer(http.StatusOK, keysRoot{keys, where})
}

func (a *api) createKey(c *call) error {
	var request godo.KeyCreateRequest
	if err := c.decode(&request); err != nil {
		return err
	}
	key, err := a.opts.Account.CreateKey(c.caller, request)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, keyRoot{key})
}

func (a *api) getKey(c *call) error {
	key, err := a.opts.Account.Key(c.r.PathValue("id"))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, keyRoot{key})
}

func (a *api) renameKey(c *call) error {
	var request godo.KeyUpdateRequest
	if err := c.decode(&request); err != nil {
		return err
	}
	key, err := a.opts.Account.RenameKey(c.caller, c.r.PathValue("id"), request.Name)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, keyRoot{key})
}

func (a *api) deleteKey(c *call) error {
	if err := a.opts.Account.DeleteKey(c.caller, c.r.PathValue("id")); err != nil {
		return err
	}
	return c.noContent()
}
