package finder

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/drover-project/drover/clouds"
)

const (
	googleName = "google"
	// googleWaits bounds the wait for an instance's deletion. The API ends each wait within two
	// minutes (Compute Engine API, zoneOperations.wait).
	googleWaits = 6
)

// googleCompute finds instances by the labels that the driver sets in the request that creates
// them. The SSH key and the user data follow in a second request, so that an instance without our
// key was never finished.
type googleCompute struct {
	nothingBeside
	project, zone string
	connect       func(context.Context) (*compute.Service, string, error)
}

var _ cloud = (*googleCompute)(nil)

// list asks for the instances of the zone, or of all zones, page by page.
func (g *googleCompute) list(ctx context.Context, tag, value string) ([]Server, error) {
	api, project, err := g.open(ctx)
	if err != nil {
		return nil, err
	}
	label := "labels." + clouds.Of(googleName).Tags.Key(tag)
	ask := func(token string) ([]*compute.Instance, string, error) {
		return zonePage(api.Instances.List(project, g.zone).Filter(label + "=" + value).MaxResults(pageSize).PageToken(token).Context(ctx).Do())
	}
	if value == "" {
		ask = func(token string) ([]*compute.Instance, string, error) {
			return allPage(api.Instances.AggregatedList(project).Filter(label + ":*").MaxResults(pageSize).PageToken(token).Context(ctx).Do())
		}
	}
	var found []Server
	err = allPages(func(token string) (page, error) {
		instances, next, err := ask(token)
		for _, instance := range instances {
			if tagged, ok := taggedInstance(instance, project); ok {
				found = append(found, tagged)
			}
		}
		return page{next: next}, err
	})
	return found, err
}

// Within implements cloud: a credential may be used in more projects than its own.
func (g *googleCompute) Within(ctx context.Context) string {
	_, project, err := g.open(ctx)
	if err != nil {
		return "gce:///" // a project that does not exist
	}
	return "gce://" + project + "/"
}

func (g *googleCompute) open(ctx context.Context) (*compute.Service, string, error) {
	api, own, err := g.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	project := cmp.Or(g.project, own)
	if project == "" {
		return nil, "", errors.New("neither the options nor the credential name a project")
	}
	return api, project, nil
}

// errOtherAnswer is for JSON without a list of instances.
var errOtherAnswer = errors.New("the response is not a list of instances")

// googleNone is the warning for a zone without instances on this page.
const googleNone = "NO_RESULTS_ON_PAGE"

func zonePage(answer *compute.InstanceList, err error) ([]*compute.Instance, string, error) {
	switch {
	case err != nil:
		return nil, "", err
	case answer.Kind != "compute#instanceList":
		return nil, "", errOtherAnswer
	case answer.Warning != nil && answer.Warning.Code != googleNone:
		return nil, "", fmt.Errorf("the list is incomplete: %s: %s", answer.Warning.Code, answer.Warning.Message)
	}
	return answer.Items, answer.NextPageToken, nil
}

// allPage is a page of all zones. A zone that cannot be reached is a warning in it.
func allPage(answer *compute.InstanceAggregatedList, err error) (instances []*compute.Instance, next string, _ error) {
	switch {
	case err != nil:
		return nil, "", err
	case answer.Kind != "compute#instanceAggregatedList":
		return nil, "", errOtherAnswer
	case len(answer.Unreachables) > 0:
		return nil, "", fmt.Errorf("the list is incomplete: %s cannot be reached, try again later", strings.Join(answer.Unreachables, ", "))
	case answer.Warning != nil && answer.Warning.Code != googleNone:
		return nil, "", fmt.Errorf("the list is incomplete: %s: %s", answer.Warning.Code, answer.Warning.Message)
	}
	for zone, part := range answer.Items {
		if part.Warning != nil && part.Warning.Code != googleNone {
			return nil, "", fmt.Errorf("the list is incomplete: %s: %s: %s", zone, part.Warning.Code, part.Warning.Message)
		}
		instances = append(instances, part.Instances...)
	}
	return instances, answer.NextPageToken, nil
}

// taggedInstance reads an instance with a label of ours. Its zone is an address that ends with the
// zone's name.
func taggedInstance(instance *compute.Instance, project string) (Server, bool) {
	tags := pairTags(googleName, instance.Labels)
	if tags == nil || instance.Name == "" {
		return Server{}, false
	}
	zone := path.Base(instance.Zone)
	record := map[string]any{"MachineName": instance.Name, "Project": project, "Zone": zone}
	for _, network := range instance.NetworkInterfaces {
		for _, access := range network.AccessConfigs {
			if access.NatIP != "" && record["IPAddress"] == nil {
				record["IPAddress"] = access.NatIP
			}
		}
	}
	// An unreadable time counts as unknown.
	created, _ := time.Parse(time.RFC3339, instance.CreationTimestamp)
	return Server{
		ID: zone + "/" + instance.Name, Name: instance.Name, Record: record, Tags: tags, Created: created,
		keys: instanceKeys(instance.Metadata), broken: instance.Status == "STOPPING", number: strconv.FormatUint(instance.Id, 10),
	}, true
}

// instanceKeys are the lines of the metadata that the driver sets, "user:key". An instance without
// them accepts no login.
func instanceKeys(metadata *compute.Metadata) []string {
	keys := []string{}
	if metadata == nil {
		return keys
	}
	for _, item := range metadata.Items {
		if item.Value == nil || item.Key != "sshKeys" && item.Key != "ssh-keys" {
			continue
		}
		for line := range strings.Lines(*item.Value) {
			if _, key, ok := strings.Cut(line, ":"); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// get implements cloud.
func (g *googleCompute) get(ctx context.Context, server Server) (Server, error) {
	zone, name := recordText(server.Record, "Zone"), recordText(server.Record, "MachineName")
	if server.ID != "" {
		if zone, name, _ = strings.Cut(server.ID, "/"); slices.Contains([]string{zone, name}, "") || strings.Contains(name, "/") {
			return Server{}, errors.New("its id does not belong to an instance")
		}
	}
	if slices.Contains([]string{zone, name}, "") {
		return Server{}, nil
	}
	api, project, err := g.open(ctx)
	if err != nil {
		return Server{}, err
	}
	instance, err := api.Instances.Get(project, zone, name).Context(ctx).Do()
	if err != nil {
		return Server{}, unlessGone(isGoogleGone(err), err)
	}
	if found, ok := taggedInstance(instance, project); ok {
		return found, nil
	}
	return Server{ID: zone + "/" + name, Name: name}, nil
}

// destroy deletes an instance, with its disk as the driver set it, and waits until it is gone. It
// identifies the instance by its number: a new instance with the same name is another one.
func (g *googleCompute) destroy(ctx context.Context, server Server) error {
	api, project, err := g.open(ctx)
	if err != nil {
		return err
	}
	zone := recordText(server.Record, "Zone")
	operation, err := api.Instances.Delete(project, zone, server.number).Context(ctx).Do()
	if isGoogleGone(err) {
		return nil
	}
	for range googleWaits {
		switch {
		case err != nil:
			return err
		case operation.Error != nil && len(operation.Error.Errors) > 0:
			return fmt.Errorf("the operation failed: %s: %s", operation.Error.Errors[0].Code, operation.Error.Errors[0].Message)
		case operation.Status == "DONE":
			return nil
		}
		operation, err = api.ZoneOperations.Wait(project, zone, operation.Name).Context(ctx).Do()
	}
	return errors.Join(err, errors.New("it is still being removed: timeout"))
}

// isGoogleGone reports whether the API itself, not a proxy on the way to it, returned that the
// instance does not exist.
func isGoogleGone(err error) bool {
	failed, ok := errors.AsType[*googleapi.Error](err)
	return ok && failed.Code == http.StatusNotFound && len(failed.Errors) > 0 && failed.Errors[0].Reason == "notFound" &&
		strings.Contains(failed.Message, "/instances/")
}

// googleTimeout is longer than the longest response, the wait for an operation.
const googleTimeout = 150 * time.Second

// newGoogle uses the same address as the driver and the same credential: from the options, or else
// from the environment it runs in.
func newGoogle(options flags) *googleCompute {
	return &googleCompute{
		project: options.text("google-project"), zone: options.text("google-zone"),
		connect: func(ctx context.Context) (*compute.Service, string, error) {
			return connectGoogle(ctx, options.text("google-auth-encoded-json"))
		},
	}
}

func connectGoogle(ctx context.Context, auth string, extra ...option.ClientOption) (*compute.Service, string, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: requestTimeout})
	credential, err := googleCredential(ctx, auth)
	if err != nil {
		return nil, "", err
	}
	client := oauth2.NewClient(ctx, credential.TokenSource)
	client.Timeout = googleTimeout
	api, err := compute.NewService(ctx, append([]option.ClientOption{option.WithHTTPClient(client)}, extra...)...)
	return api, credential.ProjectID, err
}

// errGoogleKey does not quote the given value: it may be a secret in the wrong place.
var errGoogleKey = errors.New("the option google-auth-encoded-json: it must be a credential's JSON, or that in base64: invalid credentials")

// googleCredential reads the credential in both forms that the driver takes.
func googleCredential(ctx context.Context, auth string) (*google.Credentials, error) {
	if auth == "" {
		return google.FindDefaultCredentials(ctx, compute.ComputeScope)
	}
	text, err := base64.StdEncoding.DecodeString(auth)
	if err != nil {
		text = []byte(auth)
	}
	var kind struct {
		Type google.CredentialsType `json:"type"`
	}
	if json.Unmarshal(text, &kind) != nil || kind.Type == "" {
		return nil, errGoogleKey
	}
	credential, err := google.CredentialsFromJSONWithType(ctx, text, kind.Type, compute.ComputeScope)
	if err != nil {
		return nil, errGoogleKey
	}
	return credential, nil
}
