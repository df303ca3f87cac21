package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
)

// destroyTimeout bounds the removal of a server, which goes on when the
// client has gone.
const destroyTimeout = time.Minute

// answerWithin is how long the answer to a creation may take. As with the
// real API, a server is often further than its answer tells by the time it comes,
// which spares drivers a round of polling.
const answerWithin = 250 * time.Millisecond

func (a *api) droplets() map[string]handler {
	return map[string]handler{
		"GET /v2/droplets": list("droplets", func(c *call) ([]godo.Droplet, error) {
			query := c.r.URL.Query()
			if query.Get("type") == "gpus" {
				return nil, nil
			}
			return a.opts.Account.Droplets(query.Get("name"), query.Get("tag_name")), nil
		}),
		"POST /v2/droplets": a.createDroplets,
		"GET /v2/droplets/{id}": one("droplet", func(c *call) (godo.Droplet, error) {
			id, err := c.number("id")
			if err != nil {
				return godo.Droplet{}, err
			}
			return a.opts.Account.Droplet(id)
		}),
		"DELETE /v2/droplets/{id}": remove(func(c *call) error {
			id, err := c.number("id")
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), destroyTimeout)
			defer cancel()
			return a.opts.Account.DeleteDroplet(ctx, c.caller, id)
		}),
	}
}

func (a *api) createDroplets(c *call) error {
	var body createBody
	if err := c.decode(&body); err != nil {
		return err
	}
	var boot fault.Boot
	if effect, _ := c.r.Context().Value(bootKey).(*fault.Boot); effect != nil {
		boot = *effect
	}
	keys := make([]string, 0, len(body.SSHKeys))
	for _, key := range body.SSHKeys {
		keys = append(keys, string(key))
	}
	made, err := a.opts.Account.CreateDroplet(c.caller, account.DropletRequest{
		Name: body.Name, Region: body.Region, Size: body.Size, Image: string(body.Image), Keys: keys, Backups: body.Backups,
		IPv6: body.IPv6, PrivateNetworking: body.PrivateNetworking, Monitoring: body.Monitoring, UserData: body.UserData, Tags: body.Tags,
	}, boot)
	if err != nil {
		return err
	}
	a.opts.Account.AwaitBoot(c.r.Context(), made.ID, answerWithin)
	return c.answer(http.StatusAccepted, map[string]any{"droplet": made, "links": godo.Links{}})
}

// createBody is the body of a create request. Of godo's type it differs in
// the identifiers, which godo writes as a number or a text and cannot read.
type createBody struct {
	Name              string       `json:"name"`
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

// identifier is an id given as a number, or a slug or fingerprint given as text.
type identifier string

// UnmarshalJSON reads a number or a text.
func (i *identifier) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*i = identifier(text)
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(data, &number); err != nil {
		return fmt.Errorf("parsing identifier: %w", err)
	}
	*i = identifier(number.String())
	return nil
}
