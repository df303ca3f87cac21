package finder

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/endpoints"
	"github.com/aws/aws-sdk-go/aws/request"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/ec2"
)

const (
	amazonRetries = 3
	// maxAnswer is far beyond a page of instances.
	maxAnswer = 64 << 20
)

// newAmazonEC2 goes to the same addresses as the driver, with the same credential: that of the options, else that of the
// place it runs at.
func newAmazonEC2(options flags) *amazonEC2 {
	a := &amazonEC2{region: options.text("amazonec2-region"), endpoint: options.text("amazonec2-endpoint"), keyPair: options.text("amazonec2-keypair-name")}
	config := aws.NewConfig().WithMaxRetries(amazonRetries).WithHTTPClient(&http.Client{Timeout: requestTimeout})
	config.UseDualStackEndpoint = endpoints.DualStackEndpointStateEnabled
	if a.endpoint != "" {
		config = config.WithEndpoint(a.endpoint).WithDisableSSL(options.set("amazonec2-insecure-transport"))
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
		return nil, fmt.Errorf("preparing to ask Amazon: %w", err)
	}
	return func(region string) *ec2.EC2 {
		api := ec2.New(shared, aws.NewConfig().WithRegion(region))
		api.Handlers.Unmarshal.PushFront(refuseOther)
		return api
	}, nil
}

// refuseOther makes an error of an answer that is not the one to the request: the SDK reads a proxy's page, and half an
// answer, as one without instances.
func refuseOther(r *request.Request) {
	body, err := io.ReadAll(io.LimitReader(r.HTTPResponse.Body, maxAnswer))
	_ = r.HTTPResponse.Body.Close()
	if err == nil {
		err = isWhole(body, r.Operation.Name+"Response")
	}
	if err != nil {
		r.Error = awserr.NewRequestFailure(awserr.New(request.ErrCodeSerialization, "the answer is not that of EC2", err), r.HTTPResponse.StatusCode, r.RequestID)
	}
	r.HTTPResponse.Body = io.NopCloser(bytes.NewReader(body))
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
