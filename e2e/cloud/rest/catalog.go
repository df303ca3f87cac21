package rest

import (
	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
)

func catalog() map[string]handler {
	return map[string]handler{
		"GET /v2/regions": list("regions", func(*call) ([]godo.Region, error) { return account.Regions(), nil }),
		"GET /v2/sizes":   list("sizes", func(*call) ([]godo.Size, error) { return account.Sizes(), nil }),
		"GET /v2/images": list("images", func(c *call) ([]godo.Image, error) {
			query := c.r.URL.Query()
			if kind := query.Get("type"); query.Get("private") == "true" || kind != "" && kind != "distribution" {
				return nil, nil
			}
			return account.Images(), nil
		}),
		"GET /v2/images/{id}": one("image", func(c *call) (godo.Image, error) {
			image, ok := account.FindImage(c.r.PathValue("id"))
			if !ok {
				return godo.Image{}, account.NotFound()
			}
			return image, nil
		}),
	}
}
