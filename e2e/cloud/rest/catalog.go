package rest

import (
	"net/http"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
)

type regionsRoot struct {
	Regions []godo.Region `json:"regions"`
	paged
}

type sizesRoot struct {
	Sizes []godo.Size `json:"sizes"`
	paged
}

type imageRoot struct {
	Image godo.Image `json:"image"`
}

type imagesRoot struct {
	Images []godo.Image `json:"images"`
	paged
}

func (a *api) listRegions(c *call) error {
	regions, where := page(c, account.Regions())
	return c.answer(http.StatusOK, regionsRoot{regions, where})
}

func (a *api) listSizes(c *call) error {
	sizes, where := page(c, account.Sizes())
	return c.answer(http.StatusOK, sizesRoot{sizes, where})
}

func (a *api) listImages(c *call) error {
	all := account.Images()
	query := c.r.URL.Query()
	if kind := query.Get("type"); query.Get("private") == "true" || kind != "" && kind != "distribution" {
		all = nil
	}
	images, where := page(c, all)
	return c.answer(http.StatusOK, imagesRoot{images, where})
}

func (a *api) getImage(c *call) error {
	image, ok := account.FindImage(c.r.PathValue("id"))
	if !ok {
		return account.NotFound()
	}
	return c.answer(http.StatusOK, imageRoot{image})
}
