package finder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/linode/linodego"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

const (
	linodeName = "linode"
	// linodePage is the API's largest (techdocs.akamai.com, "Pagination").
	linodePage    = 500
	linodeRetries = 3
)

// linode goes by the tags that the driver gives an instance in the very request that makes it. Its keys are no resources.
type linode struct {
	client linodego.Client
}

var _ cloud = (*linode)(nil)

func newLinode(options flags) *linode {
	client := linodego.NewClient(newAnswers().client())
	client.SetToken(options.text("linode-token"))
	// By itself the SDK asks a thousand times.
	client.SetRetryCount(linodeRetries)
	return &linode{client: client}
}

// list implements cloud. Tags cannot be asked for by how they begin, so that all are listed without a UID.
func (l *linode) list(ctx context.Context, uid string) ([]Tagged, error) {
	filter := ""
	if uid != "" {
		words := clouds.Of(linodeName).Tags.Items(map[string]string{jobrunner.TagMachineUID: uid})
		text, err := json.Marshal(map[string]string{"tags": words[0]})
		if err != nil {
			return nil, fmt.Errorf("encoding the filter: %w", err)
		}
		filter = string(text)
	}
	listed := map[int]bool{}
	total := 0
	var found []Tagged
	for page := 1; page <= maxPages; page++ {
		asked := &linodego.ListOptions{PageOptions: &linodego.PageOptions{Page: page}, PageSize: linodePage, Filter: filter}
		instances, err := l.client.ListInstances(ctx, asked)
		if err != nil {
			return nil, err
		}
		if asked.Pages == 0 {
			return nil, errNoJSON
		}
		for _, instance := range instances {
			if tags := wordTags(linodeName, instance.Tags); tags != nil && !listed[instance.ID] {
				listed[instance.ID] = true
				found = append(found, linodeTagged(&instance, tags))
			}
		}
		if total += len(instances); page < asked.Pages {
			continue
		}
		if total < asked.Results {
			return nil, errNotWhole
		}
		return found, nil
	}
	return nil, errTooMany
}

func linodeTagged(instance *linodego.Instance, tags map[string]string) Tagged {
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
	out := Tagged{
		ID: strconv.Itoa(instance.ID), Name: instance.Label, Record: record, Tags: tags, words: instance.Tags,
		broken: instance.Status == linodego.InstanceDeleting,
	}
	if instance.Created != nil {
		out.Created = *instance.Created
	}
	return out
}

// within implements cloud: a token is of one account.
func (l *linode) within(context.Context) string { return "" }

// get implements cloud.
func (l *linode) get(ctx context.Context, record map[string]any) (Tagged, error) {
	if text := fmt.Sprint(record["InstanceID"]); record["InstanceID"] != nil && text != "0" {
		return l.server(ctx, text)
	}
	return Tagged{}, nil
}

// server is the one of an id, with our tags or none; without ID it is not there.
func (l *linode) server(ctx context.Context, text string) (Tagged, error) {
	id, err := strconv.Atoi(text)
	if err != nil || id <= 0 {
		return Tagged{}, errors.New("its id is no number")
	}
	instance, err := l.client.GetInstance(ctx, id)
	if linodego.IsNotFound(err) {
		return Tagged{}, nil
	}
	if err != nil {
		return Tagged{}, err
	}
	if instance.ID != id {
		return Tagged{}, errNoJSON
	}
	return linodeTagged(instance, wordTags(linodeName, instance.Tags)), nil
}

// remove implements cloud. The tag is read again, for a tag can be changed.
func (l *linode) remove(ctx context.Context, server Tagged) error {
	now, err := l.server(ctx, server.ID)
	if err != nil || now.ID == "" {
		return err
	}
	if now.Tags[jobrunner.TagMachineUID] != server.Tags[jobrunner.TagMachineUID] {
		return errNotOurs
	}
	if now.broken {
		return nil
	}
	id, _ := now.Record["InstanceID"].(int)
	if err := l.client.DeleteInstance(ctx, id); err != nil && !linodego.IsNotFound(err) {
		return err
	}
	return nil
}

// sweep implements cloud: the driver leaves nothing.
func (l *linode) sweep(context.Context, Machine) error { return nil }
