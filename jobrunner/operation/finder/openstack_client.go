package finder

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/gophercloud/gophercloud"
	"github.com/gophercloud/gophercloud/openstack"
	"github.com/gophercloud/utils/openstack/clientconfig"
)

// newOpenStack goes to the same addresses as the driver, with the same credential.
func newOpenStack(options flags) *openStack {
	return &openStack{
		keyPair: options.text("openstack-keypair-name"),
		inSteps: options.text("openstack-floatingip-pool") != "" ||
			!options.set("openstack-boot-from-volume") && (options.text("openstack-volume-id") != "" || options.number("openstack-volume-size") > 0),
		connect: func(ctx context.Context) (*gophercloud.ServiceClient, error) { return connectOpenStack(ctx, options) },
	}
}

func connectOpenStack(ctx context.Context, options flags) (*gophercloud.ServiceClient, error) {
	credential, err := clientconfig.AuthOptions(openStackCredential(options))
	if err != nil {
		return nil, fmt.Errorf("reading OpenStack's credential: %w", err)
	}
	provider, err := openstack.NewClient(credential.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("reading OpenStack's address: %w", err)
	}
	secured, err := openStackTLS(options)
	if err != nil {
		return nil, err
	}
	provider.Context = ctx
	provider.HTTPClient = http.Client{Timeout: requestTimeout, Transport: &http.Transport{TLSClientConfig: secured, Proxy: http.ProxyFromEnvironment}}
	if err := openstack.Authenticate(provider, *credential); err != nil {
		return nil, fmt.Errorf("logging in to OpenStack: %w", err)
	}
	availability := map[string]gophercloud.Availability{"internalURL": gophercloud.AvailabilityInternal, "adminURL": gophercloud.AvailabilityAdmin}
	at := gophercloud.EndpointOpts{Region: options.text("openstack-region"), Availability: availability[options.text("openstack-endpoint-type")]}
	api, err := openstack.NewComputeV2(provider, at)
	if err != nil {
		return nil, fmt.Errorf("looking for OpenStack's compute service: %w", err)
	}
	return api, nil
}

// openStackCredential is read as the driver reads it, from the options alone.
func openStackCredential(options flags) *clientconfig.ClientOpts {
	return &clientconfig.ClientOpts{
		EnvPrefix: "_",
		AuthInfo: &clientconfig.AuthInfo{
			AuthURL: options.text("openstack-auth-url"),
			UserID:  options.text("openstack-user-id"), Username: options.text("openstack-username"), Password: options.text("openstack-password"),
			ProjectID: options.text("openstack-tenant-id"), ProjectName: options.text("openstack-tenant-name"),
			DomainID: options.text("openstack-domain-id"), DomainName: options.text("openstack-domain-name"),
			ProjectDomainID: options.text("openstack-tenant-domain-id"), ProjectDomainName: options.text("openstack-tenant-domain-name"),
			UserDomainID: options.text("openstack-user-domain-id"), UserDomainName: options.text("openstack-user-domain-name"),
			ApplicationCredentialID:     options.text("openstack-application-credential-id"),
			ApplicationCredentialName:   options.text("openstack-application-credential-name"),
			ApplicationCredentialSecret: options.text("openstack-application-credential-secret"),
		},
	}
}

// openStackTLS takes any certificate only where the user told the driver to.
func openStackTLS(options flags) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: options.set("openstack-insecure")} //nolint:gosec // the user's option of the driver, which does the same
	name := options.text("openstack-cacert")
	if name == "" {
		return config, nil
	}
	bundle, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the option openstack-cacert: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(bundle) {
		return nil, errors.New("the option openstack-cacert: there is no certificate in it")
	}
	return config, nil
}
