package finder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/endpoints"
	"github.com/aws/aws-sdk-go/aws/request"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/drover-project/drover/clouds"
)

const amazonName = "amazonec2"

// amazonEC2 finds instances by the tags that the driver sets in the request that creates them.
type amazonEC2 struct {
	region, endpoint, keyPair string
	connect                   func() (func(region string) *ec2.EC2, error)
}

var _ cloud = (*amazonEC2)(nil)

// alive lists the states of an existing instance. An instance that is shutting down never comes
// back (Amazon EC2 User Guide, "Instance state changes"), and a terminated one is listed for an
// hour.
var alive = []string{ec2.InstanceStateNamePending, ec2.InstanceStateNameRunning, ec2.InstanceStateNameStopping, ec2.InstanceStateNameStopped}

func (a *amazonEC2) list(ctx context.Context, tag, value string) ([]Server, error) {
	at, err := a.connect()
	if err != nil {
		return nil, err
	}
	key := clouds.Of(amazonName).Tags.Key(tag)
	filters := []*ec2.Filter{filter("instance-state-name", alive...)}
	regions := []string{a.region}
	if value != "" {
		filters = append(filters, filter("tag:"+key, value))
	} else {
		filters = append(filters, filter("tag-key", key))
		if regions, err = a.regions(ctx, at(a.region)); err != nil {
			return nil, err
		}
	}
	var found []Server
	for _, region := range regions {
		pages, whole := 0, false
		err := at(region).DescribeInstancesPagesWithContext(ctx, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: new(int64(pageSize))},
			func(page *ec2.DescribeInstancesOutput, last bool) bool {
				for _, instance := range instances(page) {
					if tagged, ok := a.tagged(instance, region); ok {
						found = append(found, tagged)
					}
				}
				pages++
				whole = last
				return pages < maxPages
			})
		if err == nil && !whole {
			err = errTooMany
		}
		if err != nil {
			return nil, fmt.Errorf("in region %s: %w", region, err)
		}
	}
	return found, nil
}

// instances returns the instances of all reservations.
func instances(answer *ec2.DescribeInstancesOutput) []*ec2.Instance {
	var all []*ec2.Instance
	for _, reservation := range answer.Reservations {
		all = append(all, reservation.Instances...)
	}
	return all
}

// regions returns the regions that the account uses. A compatible cloud has one region, which
// belongs to its address.
func (a *amazonEC2) regions(ctx context.Context, api *ec2.EC2) ([]string, error) {
	if a.endpoint != "" {
		return []string{a.region}, nil
	}
	answer, err := api.DescribeRegionsWithContext(ctx, &ec2.DescribeRegionsInput{})
	if err != nil {
		return nil, fmt.Errorf("listing the regions: %w", err)
	}
	var names []string
	for _, region := range answer.Regions {
		names = append(names, aws.StringValue(region.RegionName))
	}
	if len(names) == 0 {
		return nil, errors.New("listing the regions: the list is empty")
	}
	return names, nil
}

// Within implements cloud: a cloud of another maker is asked in one region alone.
func (a *amazonEC2) Within(context.Context) string {
	if a.endpoint != "" {
		return "aws:///" + a.region
	}
	return ""
}

// tagged reads an existing instance with one of our tags.
func (a *amazonEC2) tagged(instance *ec2.Instance, region string) (Server, bool) {
	pairs := map[string]string{}
	for _, tag := range instance.Tags {
		pairs[aws.StringValue(tag.Key)] = aws.StringValue(tag.Value)
	}
	tags := pairTags(amazonName, pairs)
	if tags == nil || aws.StringValue(instance.InstanceId) == "" || !isAlive(instance) {
		return Server{}, false
	}
	record := map[string]any{"InstanceId": aws.StringValue(instance.InstanceId), "Region": region}
	fields := map[string]*string{"Endpoint": &a.endpoint, "KeyName": instance.KeyName,
		"PrivateIPAddress": instance.PrivateIpAddress, "IPAddress": instance.PublicIpAddress, "IPv6Address": instance.Ipv6Address}
	if instance.Placement != nil {
		fields["Zone"] = instance.Placement.AvailabilityZone
	}
	for field, value := range fields {
		if text := aws.StringValue(value); text != "" {
			record[field] = text
		}
	}
	// A start resets the launch time: an instance may look younger than it is, never older.
	return Server{
		ID: aws.StringValue(instance.InstanceId), Name: pairs["Name"], Record: record, Tags: tags, Created: aws.TimeValue(instance.LaunchTime),
	}, true
}

func isAlive(instance *ec2.Instance) bool {
	return instance.State != nil && slices.Contains(alive, aws.StringValue(instance.State.Name))
}

// get implements cloud. In a list of all regions its region is not kept, so that it is in its record.
func (a *amazonEC2) get(ctx context.Context, server Server) (Server, error) {
	id, region := cmp.Or(server.ID, recordText(server.Record, "InstanceId")), cmp.Or(recordText(server.Record, "Region"), a.region)
	if id == "" {
		return Server{}, nil
	}
	at, err := a.connect()
	if err != nil {
		return Server{}, err
	}
	answer, err := at(region).DescribeInstancesWithContext(ctx, &ec2.DescribeInstancesInput{InstanceIds: []*string{&id}})
	if err != nil {
		return Server{}, unlessGone(isAmazonGone(err), err)
	}
	for _, instance := range instances(answer) {
		if !isAlive(instance) {
			continue
		}
		if found, ok := a.tagged(instance, region); ok && found.ID == id {
			return found, nil
		}
		return Server{ID: id}, nil
	}
	return Server{}, nil
}

// destroy implements cloud.
func (a *amazonEC2) destroy(ctx context.Context, server Server) error {
	at, err := a.connect()
	if err != nil {
		return err
	}
	_, err = at(recordText(server.Record, "Region")).TerminateInstancesWithContext(ctx, &ec2.TerminateInstancesInput{InstanceIds: []*string{&server.ID}})
	return unlessGone(isAmazonGone(err), err)
}

// isAmazonGone: Amazon EC2 API Reference, "Error codes".
func isAmazonGone(err error) bool {
	failed, ok := errors.AsType[awserr.Error](err)
	return ok && failed.Code() == "InvalidInstanceID.NotFound"
}

// Sweep deletes the key pair that the driver imported under the server's name and five letters: the
// one with the machine's public key. Without that key the owner cannot be proven.
func (a *amazonEC2) Sweep(ctx context.Context, machine Machine) error {
	if a.keyPair != "" || len(machine.PublicKey) == 0 || machine.InstanceName == "" {
		return nil
	}
	at, err := a.connect()
	if err != nil {
		return err
	}
	api := at(a.region)
	answer, err := api.DescribeKeyPairsWithContext(ctx, &ec2.DescribeKeyPairsInput{
		Filters: []*ec2.Filter{filter("key-name", machine.InstanceName+"-?????")}, IncludePublicKey: new(true)})
	if err != nil {
		return fmt.Errorf("looking for key pairs: %w", err)
	}
	for _, pair := range answer.KeyPairs {
		if !sameKey(aws.StringValue(pair.PublicKey), machine.PublicKey) || aws.StringValue(pair.KeyPairId) == "" {
			continue
		}
		if _, err := api.DeleteKeyPairWithContext(ctx, &ec2.DeleteKeyPairInput{KeyPairId: pair.KeyPairId}); err != nil {
			return fmt.Errorf("removing key pair %s: %w", aws.StringValue(pair.KeyPairId), err)
		}
	}
	return nil
}

func filter(name string, values ...string) *ec2.Filter {
	return &ec2.Filter{Name: &name, Values: aws.StringSlice(values)}
}

const (
	amazonRetries = 3
	// maxAnswer is far beyond a page of instances.
	maxAnswer = 64 << 20
)

// newAmazonEC2 uses the same addresses as the driver and the same credential: from the options, or
// else from the environment it runs in.
func newAmazonEC2(options flags) *amazonEC2 {
	a := &amazonEC2{region: options.text("amazonec2-region"), endpoint: options.text("amazonec2-endpoint"), keyPair: options.text("amazonec2-keypair-name")}
	config := aws.NewConfig().WithMaxRetries(amazonRetries).WithHTTPClient(&http.Client{Timeout: requestTimeout})
	config.UseDualStackEndpoint = endpoints.DualStackEndpointStateEnabled
	if a.endpoint != "" {
		config = config.WithEndpoint(a.endpoint).WithDisableSSL(valueOf[bool](options, "amazonec2-insecure-transport"))
	}
	if id, secret := options.text("amazonec2-access-key"), options.text("amazonec2-secret-key"); id != "" && secret != "" {
		config = config.WithCredentials(credentials.NewStaticCredentials(id, secret, options.text("amazonec2-session-token")))
	}
	a.connect = func() (func(string) *ec2.EC2, error) { return connectAmazon(config) }
	return a
}

func connectAmazon(config *aws.Config) (func(region string) *ec2.EC2, error) {
	shared, err := session.NewSession(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the request to Amazon: %w", err)
	}
	return func(region string) *ec2.EC2 {
		api := ec2.New(shared, aws.NewConfig().WithRegion(region))
		// An answer that is not the one to the request becomes an error: the SDK reads a proxy's
		// page, and half an answer, as one without instances.
		api.Handlers.Unmarshal.PushFront(func(r *request.Request) {
			body, err := io.ReadAll(io.LimitReader(r.HTTPResponse.Body, maxAnswer))
			_ = r.HTTPResponse.Body.Close()
			if err == nil {
				err = isWhole(body, r.Operation.Name+"Response")
			}
			if err != nil {
				r.Error = awserr.NewRequestFailure(awserr.New(request.ErrCodeSerialization, "the response is not from EC2", err), r.HTTPResponse.StatusCode, r.RequestID)
			}
			r.HTTPResponse.Body = io.NopCloser(bytes.NewReader(body))
		})
		return api
	}, nil
}

// isWhole reads a document to its end.
func isWhole(document []byte, root string) error {
	decoder := xml.NewDecoder(bytes.NewReader(document))
	named := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) && named {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		if start, ok := token.(xml.StartElement); ok && !named {
			if start.Name.Local != root {
				return fmt.Errorf("it is no %s", root)
			}
			named = true
		}
	}
}
