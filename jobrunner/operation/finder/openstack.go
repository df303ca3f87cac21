package finder

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud"
	"github.com/gophercloud/gophercloud/openstack"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/extensions/keypairs"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/pagination"
	"github.com/gophercloud/utils/openstack/clientconfig"

	"github.com/drover-project/drover/jobrunner"
)

const openStackName = "openstack"

// openStack finds a server by its name and proves the owner by its SSH key, because the driver has
// no option for tags or metadata. The driver registers a key pair of the machine's own key under
// the server's name and a random suffix, and names it in the request that creates the server. In
// OpenStack several servers can have one name.
type openStack struct {
	keyPair string
	// inSteps is true if the server gets a floating address or a volume after it is created.
	inSteps bool
	connect func(context.Context) (*gophercloud.ServiceClient, error)
}

var _ Finder = (*openStack)(nil)

// Find implements Finder. When an answer was lost, a server of the name that may be this one or
// another's is ErrUncertain.
func (o *openStack) Find(ctx context.Context, machine Machine) ([]Server, error) {
	if slices.Contains([]string{machine.Tags[jobrunner.TagMachineUID], machine.InstanceName}, "") {
		return nil, errNoTag
	}
	ctx, cancel := context.WithTimeoutCause(ctx, findTimeout, errTooSlow)
	defer cancel()
	api, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	namesakes, err := namesakes(api, machine.InstanceName)
	if err != nil {
		return nil, fmt.Errorf("looking for servers by name: %w", err)
	}
	var found []Server
	for _, server := range namesakes {
		ours, err := o.isOurs(api, server, machine)
		if err != nil {
			return nil, err
		}
		if ours {
			found = append(found, Server{
				ID: server.ID, Name: server.Name, Tags: map[string]string{jobrunner.TagMachineUID: machine.Tags[jobrunner.TagMachineUID]},
				Record:     map[string]any{"MachineId": server.ID, "KeyPairName": server.KeyName},
				Unfinished: o.inSteps || slices.Contains([]string{"ERROR", "UNKNOWN"}, server.Status),
			})
		}
	}
	return found, nil
}

// Namesakes implements Finder: the driver has no flag for tags.
func (o *openStack) Namesakes(context.Context, Machine) ([]Server, error) { return nil, nil }

// isOurs compares the public key of the server's key pair with the machine's. A key pair that
// another machine of the same name had has another one.
func (o *openStack) isOurs(api *gophercloud.ServiceClient, server servers.Server, machine Machine) (bool, error) {
	unknown := func(why string) error {
		if !machine.Lost {
			return nil
		}
		return fmt.Errorf("%w: there is server %s named %s, but %s", ErrUncertain, server.ID, server.Name, why)
	}
	// A record that names it is the driver's own word.
	if id, _ := machine.Record["MachineId"].(string); id == server.ID {
		return true, nil
	}
	switch {
	case o.keyPair != "":
		if server.KeyName != o.keyPair {
			return false, nil
		}
		return false, unknown("its key pair " + o.keyPair + " does not belong to one machine")
	case !strings.HasPrefix(server.KeyName, pairPrefix(machine.InstanceName)):
		return false, nil
	case len(machine.PublicKey) == 0:
		return false, unknown("the machine's SSH key is lost")
	}
	pair, err := keypairs.Get(api, server.KeyName).Extract()
	if missing := (gophercloud.ErrDefault404{}); errors.As(err, &missing) {
		return false, unknown("this credential's user has no key pair " + server.KeyName)
	}
	if err == nil && (pair == nil || pair.PublicKey == "") {
		err = errOtherAnswer
	}
	if err != nil {
		return false, fmt.Errorf("reading key pair %s: %w", server.KeyName, err)
	}
	return sameKey(pair.PublicKey, machine.PublicKey), nil
}

// pairPrefix: the driver's sanitizeKeyPairName makes dots underscores.
func pairPrefix(name string) string { return strings.ReplaceAll(name, ".", "_") + "-" }

// namesakes returns all existing servers of exactly this name. The API takes the name as a regular
// expression (Compute API, "List Servers").
func namesakes(api *gophercloud.ServiceClient, name string) ([]servers.Server, error) {
	list := servers.List(api, servers.ListOpts{Name: "^" + regexp.QuoteMeta(name) + "$", Limit: pageSize})
	var found []servers.Server
	pages := 0
	ours := func(r pagination.PageResult) pagination.Page {
		return serversPage{servers.ServerPage{LinkedPageBase: pagination.LinkedPageBase{PageResult: r}}}
	}
	err := list.WithPageCreator(ours).EachPage(func(page pagination.Page) (bool, error) {
		if pages++; pages > maxPages {
			return false, errTooMany
		}
		listed, err := servers.ExtractServers(page.(serversPage).ServerPage)
		if err != nil {
			return false, err
		}
		for _, server := range listed {
			if server.Name == name && server.ID != "" && !slices.Contains([]string{"DELETED", "SOFT_DELETED"}, server.Status) {
				found = append(found, server)
			}
		}
		return true, nil
	})
	return found, err
}

// serversPage is a page that the SDK does not mistake for the last one if it is empty, nor accepts
// if the response has no list.
type serversPage struct {
	servers.ServerPage
}

// IsEmpty implements pagination.Page.
func (p serversPage) IsEmpty() (bool, error) { return false, holds(p.Body, "servers") }

// holds returns an error unless the response is JSON with a list of this name.
func holds(body any, name string) error {
	answer, _ := body.(map[string]any)
	if _, ok := answer[name].([]any); !ok {
		return errOtherAnswer
	}
	return nil
}

// Remove implements Finder. Find has proven the owner, and an ID is never reused.
func (o *openStack) Remove(ctx context.Context, server Server) error {
	if server.ID == "" || server.Tags[jobrunner.TagMachineUID] == "" {
		return errNoTag
	}
	api, err := o.connect(ctx)
	if err != nil {
		return err
	}
	err = servers.Delete(api, server.ID).ExtractErr()
	if gone := (gophercloud.ErrDefault404{}); errors.As(err, &gone) && strings.Contains(string(gone.Body), "itemNotFound") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing server %s: %w", server.ID, err)
	}
	return nil
}

// Sweep implements Finder: it deletes the key pair with the server's name and the machine's public
// key.
func (o *openStack) Sweep(ctx context.Context, machine Machine) error {
	if o.keyPair != "" || len(machine.PublicKey) == 0 || machine.InstanceName == "" {
		return nil
	}
	api, err := o.connect(ctx)
	if err != nil {
		return err
	}
	var pairs []keypairs.KeyPair
	page, err := keypairs.List(api).AllPages()
	if err == nil {
		err = holds(page.GetBody(), "keypairs")
	}
	if err == nil {
		pairs, err = keypairs.ExtractKeyPairs(page)
	}
	if err != nil {
		return fmt.Errorf("looking for key pairs: %w", err)
	}
	for _, pair := range pairs {
		if !strings.HasPrefix(pair.Name, pairPrefix(machine.InstanceName)) || !sameKey(pair.PublicKey, machine.PublicKey) {
			continue
		}
		err := keypairs.Delete(api, pair.Name).ExtractErr()
		if gone := (gophercloud.ErrDefault404{}); err != nil && !errors.As(err, &gone) {
			return fmt.Errorf("removing key pair %s: %w", pair.Name, err)
		}
	}
	return nil
}

// connectOpenStack goes to the same addresses as the driver, with the same credential.
func connectOpenStack(ctx context.Context, options flags) (*gophercloud.ServiceClient, error) {
	// The credential is read as the driver reads it, from the options alone.
	credential, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
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
	})
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

// openStackTLS skips the verification of certificates only if the user's option says so.
func openStackTLS(options flags) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: valueOf[bool](options, "openstack-insecure")} //nolint:gosec // the user's option of the driver, which does the same
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
		return nil, errors.New("the option openstack-cacert contains no certificate")
	}
	return config, nil
}
