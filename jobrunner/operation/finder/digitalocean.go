package finder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"golang.org/x/oauth2"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/profile"
)

const (
	requestTimeout = 30 * time.Second
	pageSize       = 200
	maxPages       = 50
)

// digitalOcean goes to the same address as the driver, through the proxy of the environment.
type digitalOcean struct {
	client *godo.Client
}

var _ Finder = (*digitalOcean)(nil)

func newDigitalOcean(token string) *digitalOcean {
	transport := &oauth2.Transport{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}), Base: http.DefaultTransport}
	return &digitalOcean{client: godo.NewClient(&http.Client{Transport: transport, Timeout: requestTimeout})}
}

// Find lists the droplets with the tag of the machine's UID.
func (d *digitalOcean) Find(ctx context.Context, machine Machine) ([]Server, error) {
	uid := machine.Tags[jobrunner.TagMachineUID]
	if uid == "" {
		return nil, errNoTag
	}
	tag := profile.Of("digitalocean").Tags.Items(map[string]string{jobrunner.TagMachineUID: uid})[0]
	var found []Server
	for page := 1; page <= maxPages; page++ {
		droplets, response, err := d.client.Droplets.ListByTag(ctx, tag, &godo.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			if isNotFound(err) {
				// A tag that was never used does not exist.
				return nil, nil
			}
			return nil, fmt.Errorf("looking for servers by tag: %w", err)
		}
		if droplets == nil {
			return nil, fmt.Errorf("looking for servers by tag: %w", errOtherAnswer)
		}
		for i := range droplets {
			found = append(found, server(&droplets[i]))
		}
		if response.Links == nil || response.Links.IsLastPage() {
			return found, nil
		}
	}
	return nil, errTooMany
}

func server(droplet *godo.Droplet) Server {
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
	return Server{ID: strconv.Itoa(droplet.ID), Name: droplet.Name, Record: record}
}

// Remove deletes a droplet.
func (d *digitalOcean) Remove(ctx context.Context, server Server) error {
	id, err := strconv.Atoi(server.ID)
	if err != nil {
		return fmt.Errorf("removing server %q: its id is no number", server.ID)
	}
	if _, err := d.client.Droplets.Delete(ctx, id); err != nil && !isNotFound(err) {
		return fmt.Errorf("removing server %d: %w", id, err)
	}
	return nil
}

// Sweep deletes the SSH key that the driver put into the account: the one its record names, and those with the server's
// public key. A key that has only the server's name is ours too when the key is lost and no droplet bears that name: a
// machine of another cluster may go by the same name.
func (d *digitalOcean) Sweep(ctx context.Context, machine Machine) error {
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
		namesakes, _, err := d.client.Droplets.ListByName(ctx, machine.InstanceName, nil)
		if err != nil {
			return fmt.Errorf("looking for servers by name: %w", err)
		}
		ours = len(namesakes) == 0
	}
	if !ours {
		return nil
	}
	if _, err := d.client.Keys.DeleteByID(ctx, key.ID); err != nil && !isNotFound(err) {
		return fmt.Errorf("removing the SSH key %d: %w", key.ID, err)
	}
	return nil
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
