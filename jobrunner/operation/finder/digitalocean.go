package finder

import (
	"bytes"
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
	"golang.org/x/oauth2"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

const (
	requestTimeout = 30 * time.Second
	pageSize       = 200
	maxPages       = 50
)

const digitalOceanName = "digitalocean"

// digitalOcean goes to the same address as the driver, through the proxy of the environment.
type digitalOcean struct {
	client *godo.Client
}

var _ cloud = (*digitalOcean)(nil)

func newDigitalOcean(token string) *digitalOcean {
	transport := &oauth2.Transport{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}), Base: http.DefaultTransport}
	return &digitalOcean{client: godo.NewClient(&http.Client{Transport: transport, Timeout: requestTimeout})}
}

// pageOf is one page of a list of droplets.
type pageOf func(context.Context, *godo.ListOptions) ([]godo.Droplet, *godo.Response, error)

// list implements cloud. A list has either the droplets without GPUs or, asked for by their type, those with GPUs, and these
// cannot be asked for by tag too (API reference, "List All Droplets").
func (d *digitalOcean) list(ctx context.Context, uid string) ([]Tagged, error) {
	plain, err := d.plain(ctx, uid)
	if err != nil {
		return nil, err
	}
	withGPUs, err := allPages(ctx, d.client.Droplets.ListWithGPUs)
	if err != nil {
		return nil, fmt.Errorf("droplets with GPUs: %w", err)
	}
	listed := map[int]bool{}
	var found []Tagged
	for _, droplet := range append(plain, withGPUs...) {
		// One that is made meanwhile moves others to the next page, where they are again.
		if tags := wordTags(digitalOceanName, droplet.Tags); tags != nil && !listed[droplet.ID] {
			listed[droplet.ID] = true
			found = append(found, taggedDroplet(&droplet, tags))
		}
	}
	return found, nil
}

// plain are the droplets without GPUs; with a UID, those with its tag. A tag that was never used does not exist.
func (d *digitalOcean) plain(ctx context.Context, uid string) ([]godo.Droplet, error) {
	if uid == "" {
		return allPages(ctx, d.client.Droplets.List)
	}
	tag := clouds.Of(digitalOceanName).Tags.Items(map[string]string{jobrunner.TagMachineUID: uid})[0]
	droplets, err := allPages(ctx, func(ctx context.Context, page *godo.ListOptions) ([]godo.Droplet, *godo.Response, error) {
		return d.client.Droplets.ListByTag(ctx, tag, page)
	})
	if err != nil && isNotFound(err) {
		return nil, nil
	}
	return droplets, err
}

func allPages(ctx context.Context, ask pageOf) ([]godo.Droplet, error) {
	var all []godo.Droplet
	for page := 1; page <= maxPages; page++ {
		droplets, response, err := ask(ctx, &godo.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			return nil, err
		}
		if droplets == nil {
			return nil, errOtherAnswer
		}
		all = append(all, droplets...)
		if response.Links == nil || response.Links.IsLastPage() {
			return all, nil
		}
	}
	return nil, errTooMany
}

func taggedDroplet(droplet *godo.Droplet, tags map[string]string) Tagged {
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
	// A time that cannot be read is one that is not known.
	created, _ := time.Parse(time.RFC3339, droplet.Created)
	return Tagged{ID: strconv.Itoa(droplet.ID), Name: droplet.Name, Record: record, Tags: tags, Created: created}
}

// get implements cloud.
func (d *digitalOcean) get(ctx context.Context, record map[string]any) (Tagged, error) {
	id, _ := strconv.Atoi(recordText(record, "DropletID")) // what is no number is no ID
	if id == 0 {
		return Tagged{}, nil
	}
	droplet, _, err := d.client.Droplets.Get(ctx, id)
	switch {
	case err != nil && isNotFound(err):
		return Tagged{}, nil
	case err != nil:
		return Tagged{}, err
	case droplet == nil || droplet.ID != id:
		return Tagged{}, errOtherAnswer
	}
	found := taggedDroplet(droplet, wordTags(digitalOceanName, droplet.Tags))
	found.words = droplet.Tags
	return found, nil
}

// within implements cloud: a token is of one account.
func (d *digitalOcean) within(context.Context) string { return "" }

// remove implements cloud. A droplet's number is never another's, so that its tag is not read again.
func (d *digitalOcean) remove(ctx context.Context, server Tagged) error {
	id, err := strconv.Atoi(server.ID)
	if err != nil {
		return errors.New("its id is no number")
	}
	if _, err := d.client.Droplets.Delete(ctx, id); err != nil && !isNotFound(err) {
		return err
	}
	return d.sweepTags(ctx, server.Tags)
}

// sweep deletes what the driver and its flag for tags left: the SSH key and, once the machine is to have no server any more,
// its tags. What is refused for one of them keeps none of the others.
func (d *digitalOcean) sweep(ctx context.Context, machine Machine) error {
	err := d.sweepKeys(ctx, machine)
	if !machine.Leaving {
		return err
	}
	return errors.Join(err, d.sweepTags(ctx, machine.Tags))
}

// sweepTags deletes the tags that nothing has any more: to DigitalOcean a tag is a resource of its own, which outlives all that
// it was put on. A cluster's go with its last server. Who deletes a tag takes it off what got it since it was looked at (API
// reference, "Delete a Tag"); a server loses no more by that than what names its cluster to people and scans.
func (d *digitalOcean) sweepTags(ctx context.Context, tags map[string]string) error {
	var left []error
	for _, name := range clouds.Of(digitalOceanName).Tags.Items(tags) {
		tag, _, err := d.client.Tags.Get(ctx, name)
		if err != nil {
			if !isNotFound(err) {
				left = append(left, fmt.Errorf("looking at the tag %s: %w", name, err))
			}
			continue
		}
		if tag == nil || tag.Name != name || tag.Resources == nil || tag.Resources.Count != 0 {
			continue
		}
		if _, err := d.client.Tags.Delete(ctx, name); err != nil && !isNotFound(err) {
			left = append(left, fmt.Errorf("removing the tag %s: %w", name, err))
		}
	}
	return errors.Join(left...)
}

// sweepKeys deletes the SSH key that the driver put into the account: the one its record names, and those with the server's
// public key. A key that has only the server's name is ours too when the key is lost and no droplet bears that name: a
// machine of another cluster may go by the same name.
func (d *digitalOcean) sweepKeys(ctx context.Context, machine Machine) error {
	if text, _ := machine.Record["SSHKeyFingerprint"].(string); text != "" {
		return nil // the user's own key
	}
	recorded := recordedKey(machine.Record)
	for page := 1; page <= maxPages; page++ {
		keys, response, err := d.client.Keys.List(ctx, &godo.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			return fmt.Errorf("looking for SSH keys: %w", err)
		}
		for _, key := range keys {
			if err := d.sweepKey(ctx, machine, key, recorded); err != nil {
				return err
			}
		}
		if response.Links == nil || response.Links.IsLastPage() {
			return nil
		}
	}
	return nil
}

func recordedKey(record map[string]any) int {
	number, _ := record["SSHKeyID"].(json.Number)
	id, _ := number.Int64()
	return int(id)
}

func (d *digitalOcean) sweepKey(ctx context.Context, machine Machine, key godo.Key, recorded int) error {
	ours := key.ID == recorded && key.Name == machine.InstanceName || sameKey(key.PublicKey, machine.PublicKey)
	if !ours && len(machine.PublicKey) == 0 && recorded == 0 && key.Name == machine.InstanceName {
		borne, err := d.isBorne(ctx, machine.InstanceName)
		if err != nil {
			return fmt.Errorf("looking for servers by name: %w", err)
		}
		ours = !borne
	}
	if !ours {
		return nil
	}
	if _, err := d.client.Keys.DeleteByID(ctx, key.ID); err != nil && !isNotFound(err) {
		return fmt.Errorf("removing the SSH key %d: %w", key.ID, err)
	}
	return nil
}

// isBorne tells whether a droplet, with GPUs or without, has a name.
func (d *digitalOcean) isBorne(ctx context.Context, name string) (bool, error) {
	namesakes, _, err := d.client.Droplets.ListByName(ctx, name, nil)
	if err != nil || len(namesakes) > 0 {
		return true, err
	}
	withGPUs, err := allPages(ctx, d.client.Droplets.ListWithGPUs)
	return slices.ContainsFunc(withGPUs, func(droplet godo.Droplet) bool { return strings.EqualFold(droplet.Name, name) }), err
}

// sameKey compares type and key, not the comment.
func sameKey(line string, public []byte) bool {
	a, b := strings.Fields(line), bytes.Fields(public)
	return len(a) >= 2 && len(b) >= 2 && a[0] == string(b[0]) && a[1] == string(b[1])
}

// isNotFound tells that the API says so, in its JSON: a page on the way to it knows nothing of droplets.
func isNotFound(err error) bool {
	var response *godo.ErrorResponse
	return errors.As(err, &response) && response.Response != nil && response.Response.StatusCode == http.StatusNotFound &&
		strings.HasPrefix(response.Response.Header.Get("Content-Type"), "application/json")
}
