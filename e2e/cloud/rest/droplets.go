package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
)

// destroyTimeout bounds the removal of a server, which goes on when the
// client has gone.
const destroyTimeout = time.Minute

// answerWithin is how long the answer to a creation may take. As with the
// real API, a server is often further than its answer tells by the time it comes,
// which spares drivers a round of polling.
const answerWithin = 250 * time.Millisecond

type dropletRoot struct {
	Droplet godo.Droplet `json:"droplet"`
	Links   *godo.Links  `json:"links,omitempty"`
}

type createdDropletsRoot struct {
	Droplets []godo.Droplet `json:"droplets"`
	Links    *godo.Links    `json:"links,omitempty"`
}

type dropletsRoot struct {
	Droplets []godo.Droplet `json:"droplets"`
	paged
}

func (a *api) listDroplets(c *call) error {
	query := c.r.URL.Query()
	all := a.opts.Account.Droplets(query.Get("name"), query.Get("tag_name"))
	if query.Get("type") == "gpus" {
		all = nil
	}
	droplets, where := page(c, all)
	return c.answer(http.StatusOK, dropletsRoot{droplets, where})
}

func (a *api) getDroplet(c *call) error {
	id, err := c.number("id")
	if err != nil {
		return err
	}
	droplet, err := a.opts.Account.Droplet(id)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, dropletRoot{Droplet: droplet})
}

func (a *api) createDroplets(c *call) error {
	var body createBody
	if err := c.decode(&body); err != nil {
		return err
	}
	request := body.request()
	droplets, actions, err := a.opts.Account.CreateDroplets(c.caller, request, bootOf(c.r.Context()))
	if err != nil {
		return err
	}
	a.opts.Account.AwaitBoot(c.r.Context(), droplets[len(droplets)-1].ID, answerWithin)
	links := &godo.Links{}
	for _, action := range actions {
		id := strconv.Itoa(action.ID)
		links.Actions = append(links.Actions, godo.LinkAction{
			ID: action.ID, Rel: action.Type, HREF: "https://" + Host + "/v2/actions/" + id,
		})
	}
	if body.Name != "" {
		return c.answer(http.StatusAccepted, dropletRoot{droplets[0], links})
	}
	return c.answer(http.StatusAccepted, createdDropletsRoot{droplets, links})
}

func (a *api) deleteDroplet(c *call) error {
	id, err := c.number("id")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), destroyTimeout)
	defer cancel()
	if err := a.opts.Account.DeleteDroplet(ctx, c.caller, id); err != nil {
		return err
	}
	return c.noContent()
}

func (a *api) deleteDropletsByTag(c *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), destroyTimeout)
	defer cancel()
	if err := a.opts.Account.DeleteDropletsByTag(ctx, c.caller, c.r.URL.Query().Get("tag_name")); err != nil {
		return err
	}
	return c.noContent()
}

// createBody is the body of a create request. Of godo's type it differs in
// the identifiers, which godo writes as a number or a text and cannot read.
type createBody struct {
	Name              string       `json:"name"`
	Names             []string     `json:"names"`
	Region            string       `json:"region"`
	Size              string       `json:"size"`
	Image             identifier   `json:"image"`
	SSHKeys           []identifier `json:"ssh_keys"`
	Backups           bool         `json:"backups"`
	IPv6              bool         `json:"ipv6"`
	PrivateNetworking bool         `json:"private_networking"`
	Monitoring        bool         `json:"monitoring"`
	UserData          string       `json:"user_data"`
	Tags              []string     `json:"tags"`
}

func (b createBody) request() account.DropletRequest {
	names := b.Names
	if b.Name != "" {
		names = []string{b.Name}
	}
	keys := make([]string, 0, len(b.SSHKeys))
	for _, key := range b.SSHKeys {
		keys = append(keys, string(key))
	}
	return account.DropletRequest{
		Names: names, Region: b.Region, Size: b.Size, Image: string(b.Image), Keys: keys, Backups: b.Backups,
		IPv6: b.IPv6, PrivateNetworking: b.PrivateNetworking, Monitoring: b.Monitoring, UserData: b.UserData, Tags: b.Tags,
	}
}
