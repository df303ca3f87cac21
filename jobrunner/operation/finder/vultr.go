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
)

const (
	vultrName = "vultr"
	// vultrPage is the API's largest (vultr.com/api, "Parameters").
	vultrPage = 500
)

// vultr is an account at Vultr.
type vultr struct {
	client  *govultr.Client
	answers answers
}

func newVultr(token string) *vultr {
	v := &vultr{}
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token})
	v.client = govultr.NewClient(&http.Client{Transport: &oauth2.Transport{Source: source, Base: &v.answers}, Timeout: requestTimeout})
	v.client.SetRetryLimit(sdkRetries)
	return v
}

// page implements accountAPI. Tags cannot be asked for by how they begin, so that all are listed
// without a value.
func (v *vultr) page(ctx context.Context, tag, value, cursor string) ([]Server, page, error) {
	asked := &govultr.ListOptions{PerPage: vultrPage, Cursor: cursor}
	if value != "" {
		asked.Tag = clouds.Of(vultrName).Tags.Items(map[string]string{tag: value})[0]
	}
	instances, meta, _, err := v.client.Instance.List(ctx, asked)
	var listed []Server
	for i := range instances {
		listed = append(listed, vultrTagged(&instances[i]))
	}
	at, err := v.at(len(instances), meta, err)
	return listed, at, err
}

// at is where in a list an answer is.
func (v *vultr) at(items int, meta *govultr.Meta, err error) (page, error) {
	if err != nil {
		return page{}, v.withStatus(err)
	}
	if meta == nil {
		return page{}, errNoJSON
	}
	at := page{items: items, total: meta.Total}
	if meta.Links != nil {
		at.next = meta.Links.Next
	}
	return at, nil
}

// withStatus adds the HTTP status to an error, because the SDK omits it.
func (v *vultr) withStatus(err error) error {
	if status := int(v.answers.status.Load()); status >= http.StatusBadRequest {
		return fmt.Errorf("%w (HTTP %d %s)", err, status, http.StatusText(status))
	}
	return err
}

// unlessGone returns the error with its status, or nil if the API answers that the object does not
// exist.
func (v *vultr) unlessGone(err error) error {
	if err == nil || v.answers.status.Load() == http.StatusNotFound {
		return nil
	}
	return v.withStatus(err)
}

// vultrTagged: the driver reads the address from the instance that the API answered, and crashes
// without one.
func vultrTagged(instance *govultr.Instance) Server {
	record := map[string]any{
		"InstanceID":       instance.ID,
		"ResponsePayloads": map[string]any{"Instance": map[string]any{"id": instance.ID, "main_ip": instance.MainIP, "region": instance.Region}},
	}
	if instance.MainIP != "" && instance.MainIP != "0.0.0.0" {
		record["IPAddress"] = instance.MainIP
	}
	// An unreadable time counts as unknown.
	created, _ := time.Parse(time.RFC3339, instance.DateCreated)
	return Server{ID: instance.ID, Name: instance.Label, Record: record, Tags: wordTags(vultrName, instance.Tags), words: instance.Tags, Created: created}
}

// server implements accountAPI. The SDK puts the id into the address as it is.
func (v *vultr) server(ctx context.Context, id string) (Server, error) {
	instance, _, err := v.client.Instance.Get(ctx, url.PathEscape(id))
	if err != nil {
		return Server{}, v.unlessGone(err)
	}
	if instance == nil || instance.ID != id {
		return Server{}, errNoJSON
	}
	return vultrTagged(instance), nil
}

// destroy implements accountAPI.
func (v *vultr) destroy(ctx context.Context, server Server) error {
	return v.unlessGone(v.client.Instance.Delete(ctx, url.PathEscape(server.ID)))
}

// Sweep deletes the SSH key that the driver registered and leaves behind: the one with the
// machine's public key. Without that key the owner cannot be proven.
func (v *vultr) Sweep(ctx context.Context, machine Machine) error {
	if len(machine.PublicKey) == 0 {
		return nil
	}
	var leaked []string
	err := allPages(func(cursor string) (page, error) {
		keys, meta, _, err := v.client.SSHKey.List(ctx, &govultr.ListOptions{PerPage: vultrPage, Cursor: cursor})
		for _, key := range keys {
			if sameKey(key.SSHKey, machine.PublicKey) && key.ID != "" {
				leaked = append(leaked, key.ID)
			}
		}
		return v.at(len(keys), meta, err)
	})
	if err != nil {
		return fmt.Errorf("looking for SSH keys: %w", err)
	}
	for _, id := range leaked {
		if err := v.unlessGone(v.client.SSHKey.Delete(ctx, url.PathEscape(id))); err != nil {
			return fmt.Errorf("removing the SSH key %s: %w", id, err)
		}
	}
	return nil
}
