package finder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/linode/linodego"

	"github.com/drover-project/drover/clouds"
)

const (
	linodeName = "linode"
	// linodePage is the API's largest (techdocs.akamai.com, "Pagination").
	linodePage = 500
)

// linode is an account at Linode. SSH keys are not resources there.
type linode struct {
	nothingBeside
	client linodego.Client
}

func newLinode(token string) *linode {
	client := linodego.NewClient(&http.Client{Transport: &answers{}, Timeout: requestTimeout})
	client.SetToken(token)
	// By itself the SDK asks a thousand times.
	client.SetRetryCount(sdkRetries)
	return &linode{client: client}
}

// page implements accountAPI. Tags cannot be asked for by how they begin, so that all are listed
// without a value.
func (l *linode) page(ctx context.Context, tag, value, cursor string) ([]Server, page, error) {
	asked := &linodego.ListOptions{PageOptions: &linodego.PageOptions{Page: pageNumber(cursor)}, PageSize: linodePage}
	if value != "" {
		words := clouds.Of(linodeName).Tags.Items(map[string]string{tag: value})
		text, err := json.Marshal(map[string]string{"tags": words[0]})
		if err != nil {
			return nil, page{}, fmt.Errorf("encoding the filter: %w", err)
		}
		asked.Filter = string(text)
	}
	instances, err := l.client.ListInstances(ctx, asked)
	if err != nil {
		return nil, page{}, err
	}
	if asked.Pages == 0 {
		return nil, page{}, errNoJSON
	}
	at := page{total: asked.Results}
	if pageNumber(cursor) < asked.Pages {
		at.nextNumber = pageNumber(cursor) + 1
	}
	var listed []Server
	for i := range instances {
		listed = append(listed, linodeTagged(&instances[i]))
	}
	return listed, at, nil
}

func linodeTagged(instance *linodego.Instance) Server {
	record := map[string]any{"InstanceID": instance.ID, "InstanceLabel": instance.Label, "Region": instance.Region}
	for _, address := range instance.IPv4 {
		field := "IPAddress"
		if address.IsPrivate() {
			field = "PrivateIPAddress"
		}
		if _, known := record[field]; !known {
			record[field] = address.String()
		}
	}
	out := Server{
		ID: strconv.Itoa(instance.ID), Name: instance.Label, Record: record, Tags: wordTags(linodeName, instance.Tags), words: instance.Tags,
		broken: instance.Status == linodego.InstanceDeleting,
	}
	if instance.Created != nil {
		out.Created = *instance.Created
	}
	return out
}

// server implements accountAPI.
func (l *linode) server(ctx context.Context, id string) (Server, error) {
	number, err := strconv.Atoi(id)
	if err != nil || number <= 0 {
		return Server{}, errNoNumber
	}
	instance, err := l.client.GetInstance(ctx, number)
	if err != nil {
		return Server{}, unlessGone(linodego.IsNotFound(err), err)
	}
	if instance.ID != number {
		return Server{}, errNoJSON
	}
	return linodeTagged(instance), nil
}

// destroy implements accountAPI.
func (l *linode) destroy(ctx context.Context, server Server) error {
	if server.broken { // it is on its way out
		return nil
	}
	number, err := strconv.Atoi(server.ID)
	if err != nil {
		return errNoNumber
	}
	err = l.client.DeleteInstance(ctx, number)
	return unlessGone(linodego.IsNotFound(err), err)
}
