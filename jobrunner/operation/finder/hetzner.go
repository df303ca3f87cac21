package finder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/drover-project/drover/clouds"
)

const (
	hetznerName = "hetzner"
	// hetznerPage is the API's largest (docs.hetzner.cloud, "Pagination").
	hetznerPage = 50
)

// hetzner is a project at Hetzner, whose servers have labels.
type hetzner struct {
	client *hcloud.Client
}

func newHetzner(token string, options ...hcloud.ClientOption) *hetzner {
	client := &http.Client{Transport: &answers{}, Timeout: requestTimeout}
	return &hetzner{client: hcloud.NewClient(append(options, hcloud.WithToken(token), hcloud.WithHTTPClient(client))...)}
}

// page implements accountAPI. A token is of one project, and a project's servers are in one list.
func (h *hetzner) page(ctx context.Context, tag, value, cursor string) ([]Server, page, error) {
	selector := clouds.Of(hetznerName).Tags.Key(tag)
	if value != "" {
		selector += "==" + value
	}
	servers, response, err := h.client.Server.List(ctx, hcloud.ServerListOpts{
		ListOpts: hcloud.ListOpts{LabelSelector: selector, Page: pageNumber(cursor), PerPage: hetznerPage}})
	if err != nil {
		return nil, page{}, err
	}
	if response.Meta.Pagination == nil {
		return nil, page{}, errNoJSON
	}
	var listed []Server
	for _, server := range servers {
		listed = append(listed, hetznerTagged(server))
	}
	return listed, page{total: response.Meta.Pagination.TotalEntries, nextNumber: response.Meta.Pagination.NextPage}, nil
}

func hetznerTagged(server *hcloud.Server) Server {
	record := map[string]any{"ServerID": server.ID, "MachineName": server.Name}
	if server.Location != nil && server.Location.Name != "" {
		record["Location"] = server.Location.Name
	}
	if ip := server.PublicNet.IPv4.IP; ip != nil {
		record["IPAddress"] = ip.String()
	}
	return Server{
		ID: strconv.FormatInt(server.ID, 10), Name: server.Name, Record: record, Tags: pairTags(hetznerName, server.Labels), Created: server.Created,
		broken: server.Status == hcloud.ServerStatusDeleting,
	}
}

// server implements accountAPI.
func (h *hetzner) server(ctx context.Context, id string) (Server, error) {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return Server{}, errNoNumber
	}
	server, _, err := h.client.Server.GetByID(ctx, number)
	if err != nil || server == nil {
		return Server{}, err
	}
	return hetznerTagged(server), nil
}

var errNoNumber = errors.New("its id is not a number")

// destroy implements accountAPI.
func (h *hetzner) destroy(ctx context.Context, server Server) error {
	if server.broken { // it is on its way out
		return nil
	}
	number, err := strconv.ParseInt(server.ID, 10, 64)
	if err != nil {
		return errNoNumber
	}
	_, _, err = h.client.Server.DeleteWithResult(ctx, &hcloud.Server{ID: number})
	return unlessGone(hcloud.IsError(err, hcloud.ErrorCodeNotFound), err)
}

// Sweep deletes the SSH key that the driver registered under the machine's name, if it is the
// machine's.
func (h *hetzner) Sweep(ctx context.Context, machine Machine) error {
	if existing, _ := machine.Record["IsExistingKey"].(bool); existing || slices.Contains([]string{machine.InstanceName, string(machine.PublicKey)}, "") {
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
	if _, err := h.client.SSHKey.Delete(ctx, key); unlessGone(hcloud.IsError(err, hcloud.ErrorCodeNotFound), err) != nil {
		return fmt.Errorf("removing the SSH key %d: %w", key.ID, err)
	}
	return nil
}
