package finder

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

const (
	hetznerName = "hetzner"
	// hetznerPage is the API's largest (docs.hetzner.cloud, "Pagination").
	hetznerPage = 50
)

// hetzner goes by the labels that the driver gives a server in the very request that makes it.
type hetzner struct {
	client *hcloud.Client
}

var _ cloud = (*hetzner)(nil)

func newHetzner(options flags) *hetzner {
	return &hetzner{client: hcloud.NewClient(hcloud.WithToken(options.text("hetzner-api-token")), hcloud.WithHTTPClient(newAnswers().client()))}
}

// list implements cloud. A token is of one project, and a project's servers are in one list.
func (h *hetzner) list(ctx context.Context, uid string) ([]Tagged, error) {
	selector := clouds.Of(hetznerName).Tags.Key(jobrunner.TagMachineUID)
	if uid != "" {
		selector += "==" + uid
	}
	listed := map[int64]bool{}
	var found []Tagged
	err := hetznerPages(func(page hcloud.ListOpts) (*hcloud.Response, int, error) {
		page.LabelSelector = selector
		servers, response, err := h.client.Server.List(ctx, hcloud.ServerListOpts{ListOpts: page})
		for _, server := range servers {
			if tags := pairTags(hetznerName, server.Labels); tags != nil && !listed[server.ID] {
				listed[server.ID] = true
				found = append(found, hetznerTagged(server, tags))
			}
		}
		return response, len(servers), err
	})
	return found, err
}

// hetznerPages asks for all pages of a list.
func hetznerPages(ask func(hcloud.ListOpts) (response *hcloud.Response, items int, err error)) error {
	total := 0
	for page := 1; page <= maxPages; page++ {
		response, items, err := ask(hcloud.ListOpts{Page: page, PerPage: hetznerPage})
		if err != nil {
			return err
		}
		pages := response.Meta.Pagination
		if pages == nil {
			return errNoJSON
		}
		total += items
		if pages.NextPage != 0 {
			continue
		}
		if total < pages.TotalEntries {
			return errNotWhole
		}
		return nil
	}
	return errTooMany
}

func hetznerTagged(server *hcloud.Server, tags map[string]string) Tagged {
	record := map[string]any{"ServerID": server.ID, "MachineName": server.Name}
	if server.Location != nil && server.Location.Name != "" {
		record["Location"] = server.Location.Name
	}
	if ip := server.PublicNet.IPv4.IP; ip != nil {
		record["IPAddress"] = ip.String()
	}
	return Tagged{
		ID: strconv.FormatInt(server.ID, 10), Name: server.Name, Record: record, Tags: tags, Created: server.Created,
		broken: server.Status == hcloud.ServerStatusDeleting,
	}
}

// within implements cloud: a token is of one project.
func (h *hetzner) within(context.Context) string { return "" }

// get implements cloud.
func (h *hetzner) get(ctx context.Context, record map[string]any) (Tagged, error) {
	// The driver writes the id late: until then it is 0.
	if text := fmt.Sprint(record["ServerID"]); record["ServerID"] != nil && text != "0" {
		return h.server(ctx, text)
	}
	return Tagged{}, nil
}

// server is the one of an id, with our tags or none; without ID it is not there.
func (h *hetzner) server(ctx context.Context, text string) (Tagged, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Tagged{}, errors.New("its id is no number")
	}
	server, _, err := h.client.Server.GetByID(ctx, id)
	if err != nil || server == nil {
		return Tagged{}, err
	}
	return hetznerTagged(server, pairTags(hetznerName, server.Labels)), nil
}

// remove implements cloud. The label is read again, for a label can be changed.
func (h *hetzner) remove(ctx context.Context, server Tagged) error {
	now, err := h.server(ctx, server.ID)
	if err != nil || now.ID == "" {
		return err
	}
	if now.Tags[jobrunner.TagMachineUID] != server.Tags[jobrunner.TagMachineUID] {
		return errNotOurs
	}
	if now.broken {
		return nil
	}
	id, _ := now.Record["ServerID"].(int64)
	if _, _, err := h.client.Server.DeleteWithResult(ctx, &hcloud.Server{ID: id}); err != nil && !hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return err
	}
	return nil
}

// sweep deletes the SSH key that the driver registered under the machine's name, if it is the machine's.
func (h *hetzner) sweep(ctx context.Context, machine Machine) error {
	if existing, _ := machine.Record["IsExistingKey"].(bool); existing || len(machine.PublicKey) == 0 || machine.InstanceName == "" {
		return nil
	}
	// The names of a project's keys are unique (docs.hetzner.cloud, "Create an SSH key").
	key, _, err := h.client.SSHKey.GetByName(ctx, machine.InstanceName)
	if err != nil {
		return fmt.Errorf("looking for SSH keys: %w", err)
	}
	if key == nil || key.Name != machine.InstanceName || !sameKey(key.PublicKey, machine.PublicKey) {
		return nil
	}
	if _, err := h.client.SSHKey.Delete(ctx, key); err != nil && !hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return fmt.Errorf("removing the SSH key %d: %w", key.ID, err)
	}
	return nil
}
