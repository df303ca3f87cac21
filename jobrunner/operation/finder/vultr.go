package finder

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/vultr/govultr/v3"
	"golang.org/x/oauth2"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

const (
	vultrName = "vultr"
	// vultrPage is the API's largest (vultr.com/api, "Parameters").
	vultrPage    = 500
	vultrRetries = 3
)

// vultr goes by the tags that the driver gives an instance in the very request that makes it.
type vultr struct {
	client  *govultr.Client
	answers *answers
}

var _ cloud = (*vultr)(nil)

func newVultr(options flags) *vultr {
	v := &vultr{answers: newAnswers()}
	token := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: options.text("vultr-api-key")})
	v.client = govultr.NewClient(&http.Client{Transport: &oauth2.Transport{Source: token, Base: v.answers}, Timeout: requestTimeout})
	v.client.SetRetryLimit(vultrRetries)
	return v
}

// list implements cloud. Tags cannot be asked for by how they begin, so that all are listed without a UID.
func (v *vultr) list(ctx context.Context, uid string) ([]Tagged, error) {
	asked := &govultr.ListOptions{PerPage: vultrPage}
	if uid != "" {
		asked.Tag = clouds.Of(vultrName).Tags.Items(map[string]string{jobrunner.TagMachineUID: uid})[0]
	}
	listed := map[string]bool{}
	var found []Tagged
	err := v.pages(asked, func() (int, *govultr.Meta, error) {
		instances, meta, _, err := v.client.Instance.List(ctx, asked)
		for _, instance := range instances {
			if tags := wordTags(vultrName, instance.Tags); tags != nil && instance.ID != "" && !listed[instance.ID] {
				listed[instance.ID] = true
				found = append(found, vultrTagged(&instance, tags))
			}
		}
		return len(instances), meta, err
	})
	return found, err
}

// pages asks for all pages of a list.
func (v *vultr) pages(asked *govultr.ListOptions, ask func() (items int, meta *govultr.Meta, err error)) error {
	total := 0
	for range maxPages {
		items, meta, err := ask()
		if err != nil {
			return v.told(err)
		}
		if meta == nil {
			return errNoJSON
		}
		total += items
		if meta.Links != nil && meta.Links.Next != "" {
			asked.Cursor = meta.Links.Next
			continue
		}
		if total < meta.Total {
			return errNotWhole
		}
		return nil
	}
	return errTooMany
}

// told adds the status, which the SDK leaves out.
func (v *vultr) told(err error) error {
	if status := int(v.answers.status.Load()); status >= http.StatusBadRequest {
		return fmt.Errorf("%w (HTTP %d %s)", err, status, http.StatusText(status))
	}
	return err
}

func (v *vultr) isGone(err error) bool {
	return err != nil && v.answers.status.Load() == http.StatusNotFound
}

// vultrTagged: the driver reads the address from the instance that the API answered, and crashes without one.
func vultrTagged(instance *govultr.Instance, tags map[string]string) Tagged {
	record := map[string]any{
		"InstanceID":       instance.ID,
		"ResponsePayloads": map[string]any{"Instance": map[string]any{"id": instance.ID, "main_ip": instance.MainIP, "region": instance.Region}},
	}
	if instance.MainIP != "" && instance.MainIP != "0.0.0.0" {
		record["IPAddress"] = instance.MainIP
	}
	// A time that cannot be read is one that is not known.
	created, _ := time.Parse(time.RFC3339, instance.DateCreated)
	return Tagged{ID: instance.ID, Name: instance.Label, Record: record, Tags: tags, words: instance.Tags, Created: created}
}

// within implements cloud: a key is of one account.
func (v *vultr) within(context.Context) string { return "" }

// get implements cloud.
func (v *vultr) get(ctx context.Context, record map[string]any) (Tagged, error) {
	id, _ := record["InstanceID"].(string)
	if id == "" {
		return Tagged{}, nil
	}
	return v.server(ctx, id)
}

// server is the one of an id, with our tags or none; without ID it is not there.
func (v *vultr) server(ctx context.Context, id string) (Tagged, error) {
	// The SDK puts the id into the address as it is.
	instance, _, err := v.client.Instance.Get(ctx, url.PathEscape(id))
	switch {
	case v.isGone(err):
		return Tagged{}, nil
	case err != nil:
		return Tagged{}, v.told(err)
	case instance == nil || instance.ID != id:
		return Tagged{}, errNoJSON
	}
	return vultrTagged(instance, wordTags(vultrName, instance.Tags)), nil
}

// remove implements cloud. The tag is read again, for a tag can be changed.
func (v *vultr) remove(ctx context.Context, server Tagged) error {
	now, err := v.server(ctx, server.ID)
	if err != nil || now.ID == "" {
		return err
	}
	if now.Tags[jobrunner.TagMachineUID] != server.Tags[jobrunner.TagMachineUID] {
		return errNotOurs
	}
	if err := v.client.Instance.Delete(ctx, url.PathEscape(server.ID)); err != nil && !v.isGone(err) {
		return v.told(err)
	}
	return nil
}

// sweep deletes the SSH key that the driver registered and leaves behind: the one with the machine's public key. Without that
// key nothing proves whose it is.
func (v *vultr) sweep(ctx context.Context, machine Machine) error {
	if len(machine.PublicKey) == 0 {
		return nil
	}
	asked := &govultr.ListOptions{PerPage: vultrPage}
	var leaked []string
	err := v.pages(asked, func() (int, *govultr.Meta, error) {
		keys, meta, _, err := v.client.SSHKey.List(ctx, asked)
		for _, key := range keys {
			if sameKey(key.SSHKey, machine.PublicKey) && key.ID != "" {
				leaked = append(leaked, key.ID)
			}
		}
		return len(keys), meta, err
	})
	if err != nil {
		return fmt.Errorf("looking for SSH keys: %w", err)
	}
	for _, id := range leaked {
		if err := v.client.SSHKey.Delete(ctx, url.PathEscape(id)); err != nil && !v.isGone(err) {
			return fmt.Errorf("removing the SSH key %s: %w", id, v.told(err))
		}
	}
	return nil
}
