package finder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	"github.com/drover-project/drover/clouds"
)

const digitalOceanName = "digitalocean"

// digitalOcean goes to the same address as the driver, through the proxy of the environment.
type digitalOcean struct {
	wholeAccount
	client *godo.Client
}

var _ cloud = (*digitalOcean)(nil)

// list implements cloud. A list has either the droplets without GPUs or, asked for by their type,
// those with GPUs, and these cannot be asked for by tag too (API reference, "List All Droplets").
func (d *digitalOcean) list(ctx context.Context, tag, value string) ([]Server, error) {
	ask := d.client.Droplets.List
	if value != "" {
		word := clouds.Of(digitalOceanName).Tags.Items(map[string]string{tag: value})[0]
		ask = func(ctx context.Context, at *godo.ListOptions) ([]godo.Droplet, *godo.Response, error) {
			return d.client.Droplets.ListByTag(ctx, word, at)
		}
	}
	plain, err := droplets(ctx, ask)
	if err = unlessGone(value != "" && isNotFound(err), err); err != nil { // a tag that was never used does not exist
		return nil, err
	}
	withGPUs, err := droplets(ctx, d.client.Droplets.ListWithGPUs)
	if err != nil {
		return nil, fmt.Errorf("droplets with GPUs: %w", err)
	}
	listed := map[int]bool{}
	var found []Server
	for _, droplet := range append(plain, withGPUs...) {
		// If a droplet is created during the listing, others move to the next page and are listed
		// twice.
		if tags := wordTags(digitalOceanName, droplet.Tags); tags != nil && !listed[droplet.ID] {
			listed[droplet.ID] = true
			found = append(found, taggedDroplet(&droplet, tags))
		}
	}
	return found, nil
}

// droplets are all of a list.
func droplets(ctx context.Context, ask func(context.Context, *godo.ListOptions) ([]godo.Droplet, *godo.Response, error)) ([]godo.Droplet, error) {
	var all []godo.Droplet
	err := allPages(func(cursor string) (page, error) {
		listed, response, err := ask(ctx, &godo.ListOptions{Page: pageNumber(cursor), PerPage: pageSize})
		if err != nil {
			return page{}, err
		}
		if listed == nil {
			return page{}, errOtherAnswer
		}
		all = append(all, listed...)
		return nextPage(cursor, response), nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func nextPage(cursor string, response *godo.Response) page {
	if response.Links == nil || response.Links.IsLastPage() {
		return page{}
	}
	return page{nextNumber: pageNumber(cursor) + 1}
}

func taggedDroplet(droplet *godo.Droplet, tags map[string]string) Server {
	record := map[string]any{"DropletID": droplet.ID, "DropletName": droplet.Name, "MachineName": droplet.Name}
	if droplet.Region != nil {
		record["Region"] = droplet.Region.Slug
	}
	for field, address := range map[string]func() (string, error){
		"IPAddress": droplet.PublicIPv4, "PrivateIPAddress": droplet.PrivateIPv4, "IPv6Address": droplet.PublicIPv6,
	} {
		if text, err := address(); err == nil && text != "" {
			record[field] = text
		}
	}
	// An unreadable time counts as unknown.
	created, _ := time.Parse(time.RFC3339, droplet.Created)
	return Server{ID: strconv.Itoa(droplet.ID), Name: droplet.Name, Record: record, Tags: tags, words: droplet.Tags, Created: created}
}

// get implements cloud. A droplet's number is never reused, so that the tags of a listed droplet
// are not read again.
func (d *digitalOcean) get(ctx context.Context, server Server) (Server, error) {
	if server.ID != "" {
		return server, nil
	}
	id, _ := strconv.Atoi(recordText(server.Record, "DropletID")) // text that is not a number is not an ID
	if id == 0 {
		return Server{}, nil
	}
	droplet, _, err := d.client.Droplets.Get(ctx, id)
	if err != nil {
		return Server{}, unlessGone(isNotFound(err), err)
	}
	if droplet == nil || droplet.ID != id {
		return Server{}, errOtherAnswer
	}
	return taggedDroplet(droplet, wordTags(digitalOceanName, droplet.Tags)), nil
}

// destroy implements cloud.
func (d *digitalOcean) destroy(ctx context.Context, server Server) error {
	id, err := strconv.Atoi(server.ID)
	if err != nil {
		return errNoNumber
	}
	if _, err := d.client.Droplets.Delete(ctx, id); err != nil && !isNotFound(err) {
		return err
	}
	return d.sweepTags(ctx, server.Tags)
}

// Sweep deletes the SSH key that the driver left and, if the machine is to keep no server, the tags
// that its tag flag created. An error for one of them does not stop the others.
func (d *digitalOcean) Sweep(ctx context.Context, machine Machine) error {
	err := d.sweepKeys(ctx, machine)
	if !machine.Leaving {
		return err
	}
	return errors.Join(err, d.sweepTags(ctx, machine.Tags))
}

// sweepTags deletes unused tags: a DigitalOcean tag is a resource that outlives its droplets. A
// cluster's tag goes with the cluster's last server. Deleting a tag also removes it from droplets
// that got it after the check (API reference, "Delete a Tag"). Such a server loses only the name of
// its cluster, which people and scans read.
func (d *digitalOcean) sweepTags(ctx context.Context, tags map[string]string) error {
	var left []error
	for _, name := range clouds.Of(digitalOceanName).Tags.Items(tags) {
		tag, _, err := d.client.Tags.Get(ctx, name)
		if err = unlessGone(isNotFound(err), err); err != nil {
			left = append(left, fmt.Errorf("reading the tag %s: %w", name, err))
			continue
		}
		if tag == nil || tag.Name != name || tag.Resources == nil || tag.Resources.Count != 0 {
			continue
		}
		if _, err = d.client.Tags.Delete(ctx, name); unlessGone(isNotFound(err), err) != nil {
			left = append(left, fmt.Errorf("removing the tag %s: %w", name, err))
		}
	}
	return errors.Join(left...)
}

// sweepKeys deletes the SSH key that the driver put into the account.
func (d *digitalOcean) sweepKeys(ctx context.Context, machine Machine) error {
	if text, _ := machine.Record["SSHKeyFingerprint"].(string); text != "" {
		return nil // the user's own key
	}
	number, _ := machine.Record["SSHKeyID"].(json.Number)
	recorded, _ := number.Int64()
	return allPages(func(cursor string) (page, error) {
		keys, response, err := d.client.Keys.List(ctx, &godo.ListOptions{Page: pageNumber(cursor), PerPage: pageSize})
		if err != nil {
			return page{}, fmt.Errorf("looking for SSH keys: %w", err)
		}
		for _, key := range keys {
			ours, err := d.owns(ctx, machine, key, int(recorded))
			if err != nil {
				return page{}, fmt.Errorf("looking for servers by name: %w", err)
			}
			if !ours {
				continue
			}
			if _, err := d.client.Keys.DeleteByID(ctx, key.ID); err != nil && !isNotFound(err) {
				return page{}, fmt.Errorf("removing the SSH key %d: %w", key.ID, err)
			}
		}
		return nextPage(cursor, response), nil
	})
}

// owns reports whether a key is the machine's: the one its record names, and those with the
// server's public key. A key that has only the server's name is ours too when the key is lost and
// no droplet bears that name: a machine of another cluster may go by the same name.
func (d *digitalOcean) owns(ctx context.Context, machine Machine, key godo.Key, recorded int) (bool, error) {
	isNamed := key.Name == machine.InstanceName
	switch {
	case key.ID == recorded && isNamed, sameKey(key.PublicKey, machine.PublicKey):
		return true, nil
	case !isNamed || recorded != 0 || len(machine.PublicKey) > 0:
		return false, nil
	}
	namesakes, _, err := d.client.Droplets.ListByName(ctx, machine.InstanceName, nil)
	if err != nil || len(namesakes) > 0 {
		return false, err
	}
	withGPUs, err := droplets(ctx, d.client.Droplets.ListWithGPUs)
	isBorne := slices.ContainsFunc(withGPUs, func(droplet godo.Droplet) bool { return strings.EqualFold(droplet.Name, machine.InstanceName) })
	return !isBorne, err
}

// isNotFound reports whether the API itself, in JSON, returned not found. A proxy's page does not
// count.
func isNotFound(err error) bool {
	var response *godo.ErrorResponse
	return errors.As(err, &response) && response.Response != nil && response.Response.StatusCode == http.StatusNotFound &&
		strings.HasPrefix(response.Response.Header.Get("Content-Type"), "application/json")
}
