package rest

import (
	"strconv"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
)

func (a *api) tags() map[string]handler {
	return map[string]handler{
		"GET /v2/tags": list("tags", func(*call) ([]godo.Tag, error) { return a.opts.Account.Tags(), nil }),
		"POST /v2/tags": post("tag", func(c *call, request godo.TagCreateRequest) (godo.Tag, error) {
			return a.opts.Account.CreateTag(c.caller, request.Name)
		}),
		"GET /v2/tags/{name}":              one("tag", func(c *call) (godo.Tag, error) { return a.opts.Account.Tag(c.r.PathValue("name")) }),
		"DELETE /v2/tags/{name}":           remove(func(c *call) error { return a.opts.Account.DeleteTag(c.caller, c.r.PathValue("name")) }),
		"POST /v2/tags/{name}/resources":   a.tagResources(true),
		"DELETE /v2/tags/{name}/resources": a.tagResources(false),
	}
}

// tagResources puts a tag on droplets, or takes it off; only droplets exist here.
func (a *api) tagResources(on bool) handler {
	return remove(func(c *call) error {
		var request godo.TagResourcesRequest
		if err := c.decode(&request); err != nil {
			return err
		}
		ids := make([]int, 0, len(request.Resources))
		for _, resource := range request.Resources {
			id, err := strconv.Atoi(resource.ID)
			if err != nil || resource.Type != godo.DropletResourceType {
				return account.Unprocessable("Only droplets can be tagged here.")
			}
			ids = append(ids, id)
		}
		return a.opts.Account.TagDroplets(c.caller, c.r.PathValue("name"), ids, on)
	})
}
