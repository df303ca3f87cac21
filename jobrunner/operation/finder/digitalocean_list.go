package finder

import (
	"context"
	"fmt"
	"time"

	"github.com/digitalocean/godo"
)

var _ Lister = digitalOceanLister{}

// digitalOceanLister lists the droplets of an account; a tag's value cannot be asked for in part.
type digitalOceanLister struct {
	*digitalOcean
}

// List implements Lister.
func (d digitalOceanLister) List(ctx context.Context) ([]Tagged, error) {
	var found []Tagged
	for page := 1; page <= maxPages; page++ {
		droplets, response, err := d.client.Droplets.List(ctx, &godo.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			return nil, fmt.Errorf("looking for servers by tag: %w", err)
		}
		if droplets == nil {
			return nil, fmt.Errorf("looking for servers by tag: %w", errOtherAnswer)
		}
		for i := range droplets {
			if tags := wordTags("digitalocean", droplets[i].Tags); tags != nil {
				found = append(found, taggedDroplet(&droplets[i], tags))
			}
		}
		if response.Links == nil || response.Links.IsLastPage() {
			return found, nil
		}
	}
	return nil, errTooMany
}

func taggedDroplet(droplet *godo.Droplet, tags map[string]string) Tagged {
	known := server(droplet)
	// A time that cannot be read is one that is not known.
	created, _ := time.Parse(time.RFC3339, droplet.Created)
	return Tagged{ID: known.ID, Name: droplet.Name, Record: known.Record, Tags: tags, Created: created}
}

// Within implements Lister: a token is of one account.
func (d digitalOceanLister) Within(context.Context) string { return "" }

// Remove implements Lister.
func (d digitalOceanLister) Remove(ctx context.Context, server Tagged) error {
	return d.digitalOcean.Remove(ctx, Server{ID: server.ID})
}
