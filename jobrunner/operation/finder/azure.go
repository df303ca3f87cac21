package finder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/services/compute/mgmt/2019-12-01/compute"
	"github.com/Azure/azure-sdk-for-go/services/resources/mgmt/2019-05-01/resources"
	"github.com/Azure/go-autorest/autorest"
	"github.com/Azure/go-autorest/autorest/adal"
	"github.com/Azure/go-autorest/autorest/azure"
	"github.com/rancher/machine/drivers/azure/azureutil"
	"k8s.io/utils/ptr"
)

const azureName = "azure"

// azureCompute finds virtual machines by the tags that the driver sets in the request that creates
// them. It asks Compute: Azure Resource Manager's list of all resources is a copy that lags.
type azureCompute struct {
	nothingBeside
	subscription, group string
	connect             func(context.Context) (azureAPI, error)
}

// azureAPI are the parts of Azure that are asked.
type azureAPI struct {
	machines  compute.VirtualMachinesClient
	resources resources.Client
}

var _ cloud = (*azureCompute)(nil)

func (a *azureCompute) list(ctx context.Context, _, value string) ([]Server, error) {
	api, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	if value != "" {
		page, err := api.machines.List(ctx, a.group)
		if isAzureGone(err, "ResourceGroupNotFound") {
			// The driver makes the group first.
			return nil, nil
		}
		return a.collect(ctx, &page, err)
	}
	page, err := api.machines.ListAll(ctx, "")
	found, err := a.collect(ctx, &page, err)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	// Resource Manager knows when a resource was made. One that it does not know yet has no age.
	created, err := createdTimes(ctx, api.resources)
	if err != nil {
		return nil, fmt.Errorf("reading when virtual machines were created: %w", err)
	}
	for i := range found {
		found[i].Created = created[strings.ToLower(found[i].ID)]
	}
	return found, nil
}

// Within implements cloud: a client may be used in more subscriptions than the credential names.
func (a *azureCompute) Within(context.Context) string {
	return "azure:///subscriptions/" + a.subscription + "/"
}

// collect are the virtual machines of a list that have a tag of ours.
func (a *azureCompute) collect(ctx context.Context, page *compute.VirtualMachineListResultPage, err error) (found []Server, _ error) {
	all, err := azureList(ctx, page, func() (*[]compute.VirtualMachine, *string) { return page.Response().Value, page.Response().NextLink }, err)
	for i := range all {
		if tagged, ok := a.tagged(&all[i]); ok {
			found = append(found, tagged)
		}
	}
	return found, err
}

// azureList reads a list page by page; at returns the current page's items and the address of the
// next page. A response without a list, such as {}, is an error.
func azureList[T any](ctx context.Context, page interface{ NextWithContext(context.Context) error }, at func() (*[]T, *string), err error) (all []T, _ error) {
	for range maxPages {
		if err != nil {
			return nil, err
		}
		items, next := at()
		if items == nil {
			return nil, errNoAzureList
		}
		all = append(all, *items...)
		if next == nil || *next == "" {
			return all, nil
		}
		err = page.NextWithContext(ctx)
	}
	return nil, errors.Join(err, errTooMany)
}

var errNoAzureList = errors.New("the response is not a list of Azure")

// createdTimes returns the creation times of all virtual machines by lower-case ID: the case of
// Azure's IDs differs between services.
func createdTimes(ctx context.Context, client resources.Client) (map[string]time.Time, error) {
	created := map[string]time.Time{}
	page, err := client.List(ctx, "resourceType eq 'Microsoft.Compute/virtualMachines'", "createdTime", nil)
	known, err := azureList(ctx, &page, func() (*[]resources.GenericResourceExpanded, *string) {
		return page.Response().Value, page.Response().NextLink
	}, err)
	for _, resource := range known {
		if resource.ID != nil && resource.CreatedTime != nil {
			created[strings.ToLower(*resource.ID)] = resource.CreatedTime.Time
		}
	}
	return created, err
}

// tagged reads a virtual machine with a tag of ours.
func (a *azureCompute) tagged(vm *compute.VirtualMachine) (Server, bool) {
	pairs := map[string]string{}
	for key, value := range vm.Tags {
		pairs[key] = ptr.Deref(value, "")
	}
	tags := pairTags(azureName, pairs)
	if tags == nil || vm.ID == nil || vm.Name == nil {
		return Server{}, false
	}
	at, err := azure.ParseResourceID(*vm.ID)
	if err != nil {
		return Server{}, false
	}
	record := map[string]any{"MachineName": *vm.Name, "SubscriptionID": a.subscription, "ResourceGroup": at.ResourceGroup}
	if zones := ptr.Deref(vm.Zones, nil); len(zones) > 0 {
		record["AvailabilityZone"] = zones[0]
	}
	out := Server{ID: *vm.ID, Name: *vm.Name, Record: record, Tags: tags}
	if vm.VirtualMachineProperties == nil {
		return out, true
	}
	out.keys = machineKeys(vm.OsProfile)
	// Azure, "States and billing status of Azure Virtual Machines": a failed one was not made as it
	// was asked for.
	out.broken = slices.Contains([]string{"deleting", "failed"}, strings.ToLower(ptr.Deref(vm.ProvisioningState, "")))
	return out, true
}

func machineKeys(profile *compute.OSProfile) []string {
	if profile == nil || profile.LinuxConfiguration == nil || profile.LinuxConfiguration.SSH == nil || profile.LinuxConfiguration.SSH.PublicKeys == nil {
		return nil
	}
	keys := []string{}
	for _, key := range *profile.LinuxConfiguration.SSH.PublicKeys {
		if key.KeyData != nil {
			keys = append(keys, *key.KeyData)
		}
	}
	return keys
}

// get implements cloud.
func (a *azureCompute) get(ctx context.Context, server Server) (Server, error) {
	group, name := recordText(server.Record, "ResourceGroup"), recordText(server.Record, "MachineName")
	if server.ID != "" {
		at, err := azure.ParseResourceID(server.ID)
		kind := strings.Join([]string{at.SubscriptionID, at.Provider, at.ResourceType}, "/")
		if err != nil || !strings.EqualFold(kind, a.subscription+"/Microsoft.Compute/virtualMachines") {
			return Server{}, errors.New("its id does not belong to a virtual machine of the subscription")
		}
		group, name = at.ResourceGroup, at.ResourceName
	}
	if slices.Contains([]string{group, name}, "") {
		return Server{}, nil
	}
	api, err := a.connect(ctx)
	if err != nil {
		return Server{}, err
	}
	vm, err := api.machines.Get(ctx, group, name, "")
	if err != nil {
		return Server{}, unlessGone(isAzureGone(err, "ResourceNotFound", "ResourceGroupNotFound"), err)
	}
	if found, ok := a.tagged(&vm); ok {
		return found, nil
	}
	return Server{ID: name, Name: name}, nil
}

// destroy waits until the virtual machine is gone. The resources that the driver made beside it
// carry no tag and stay.
func (a *azureCompute) destroy(ctx context.Context, server Server) error {
	api, err := a.connect(ctx)
	if err != nil {
		return err
	}
	removal, err := api.machines.Delete(ctx, recordText(server.Record, "ResourceGroup"), server.Name)
	if err != nil {
		return unlessGone(isAzureGone(err, "ResourceNotFound", "ResourceGroupNotFound"), err)
	}
	return removal.WaitForCompletionRef(ctx, api.machines.Client)
}

// isAzureGone reports whether Azure itself, not a proxy on the way to it, returned one of these
// codes for a missing resource.
func isAzureGone(err error, codes ...string) bool {
	if answer, ok := errors.AsType[*azure.RequestError](err); ok && answer.ServiceError != nil {
		return slices.Contains(codes, answer.ServiceError.Code)
	}
	// A removal's first answer is read by another part of the SDK.
	answer, ok := errors.AsType[*azure.ServiceError](err)
	return ok && slices.Contains(codes, answer.Code)
}

const (
	azureRetries = 3
	azurePause   = 2 * time.Second
)

// azureAccess is a service principal and its scope.
type azureAccess struct {
	environment                          azure.Environment
	subscription, tenant, client, secret string
	// pause is between attempts and between questions whether something is done; Azure's own
	// Retry-After goes before it.
	pause time.Duration
}

func newAzure(options flags) *azureCompute {
	access := azureAccess{
		subscription: options.text("azure-subscription-id"), tenant: options.text("azure-tenant-id"),
		client: options.text("azure-client-id"), secret: options.text("azure-client-secret"), pause: azurePause,
	}
	return &azureCompute{
		subscription: access.subscription, group: options.text("azure-resource-group"),
		connect: func(ctx context.Context) (azureAPI, error) {
			var err error
			if access.environment, err = azure.EnvironmentFromName(options.text("azure-environment")); err != nil {
				return azureAPI{}, fmt.Errorf("invalid Azure environment: %w", err)
			}
			return access.connect(ctx)
		},
	}
}

// connect finds the tenant like the driver when it is not given. A person's login in a browser,
// which the driver falls back to, is not possible in a Job.
func (a azureAccess) connect(ctx context.Context) (azureAPI, error) {
	if slices.Contains([]string{a.subscription, a.client, a.secret}, "") {
		return azureAPI{}, errors.New("the subscription, the client's id and its secret must be specified")
	}
	tenant := a.tenant
	if tenant == "" {
		var err error
		if tenant, err = azureutil.FindTenantID(ctx, a.environment, a.subscription); err != nil {
			return azureAPI{}, fmt.Errorf("looking for the subscription's tenant: %w", err)
		}
	}
	login, err := adal.NewOAuthConfig(a.environment.ActiveDirectoryEndpoint, tenant)
	if err != nil {
		return azureAPI{}, fmt.Errorf("preparing to log in to Azure: %w", err)
	}
	token, err := adal.NewServicePrincipalToken(*login, a.client, a.secret, a.environment.ResourceManagerEndpoint)
	if err != nil {
		return azureAPI{}, fmt.Errorf("preparing to log in to Azure: %w", err)
	}
	sender := &http.Client{Timeout: requestTimeout}
	token.SetSender(sender)
	api := azureAPI{
		machines:  compute.NewVirtualMachinesClientWithBaseURI(a.environment.ResourceManagerEndpoint, a.subscription),
		resources: resources.NewClientWithBaseURI(a.environment.ResourceManagerEndpoint, a.subscription),
	}
	for _, client := range []*autorest.Client{&api.machines.Client, &api.resources.Client} {
		client.Authorizer, client.Sender = autorest.NewBearerAuthorizer(token), sender
		client.RetryAttempts, client.RetryDuration, client.PollingDelay = azureRetries, a.pause, a.pause
	}
	return api, nil
}
