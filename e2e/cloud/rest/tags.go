package rest

import (
	"net/http"
	"strconv"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
)

type tagRoot struct {
	Tag godo.Tag `json:"tag"`
}

type tagsRoot struct {
	Tags []godo.Tag `json:"tags"`
	paged
}

func (a *api) listTags(c *call) error {
	tags, where := page(c, a.opts.Account.Tags())
	return c.answer(http.StatusOK, tagsRoot{tags, where})
}

func (a *api) createTag(c *call) error {
	var request godo.TagCreateRequest
	if err := c.decode(&request); err != nil {
		return err
	}
	tag, err := a.opts.Account.CreateTag(c.caller, request.Name)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, tagRoot{tag})
}

func (a *api) getTag(c *call) error {
	tag, err := a.opts.Account.Tag(c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, tagRoot{tag})
}

func (a *api) deleteTag(c *call) error {
	if err := a.opts.Account.DeleteTag(c.caller, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.noContent()
}

// tagResources puts a tag on droplets, or takes it off; only droplets exist here.
func (a *api) tagResources(on bool) handler {
	return func(c *call) error {
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
		if err := a.opts.Account.TagDroplets(c.caller, c.r.PathValue("name"), ids, on); err != nil {
			return err
		}
		return c.noContent()
	}
}
