package finder

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"
)

// googleTimeout is longer than the longest answer, that of a wait for an operation.
const googleTimeout = 150 * time.Second

// newGoogle goes to the same address as the driver, with the same credential: that of the options, else that of the place it
// runs at.
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

// errGoogleKey says nothing of what was given: it may be a secret in the wrong place.
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
