package finder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/services/compute/mgmt/2019-12-01/compute"
	"github.com/Azure/azure-sdk-for-go/services/resources/mgmt/2019-05-01/resources"
	"github.com/Azure/go-autorest/autorest"
	"github.com/Azure/go-autorest/autorest/adal"
	"github.com/Azure/go-autorest/autorest/azure"
	"github.com/rancher/machine/drivers/azure/azureutil"
)

const (
	azureRetries = 3
	azurePause   = 2 * time.Second
)

// azureAccess is a service principal and where it is used.
type azureAccess struct {
	environment                          azure.Environment
	subscription, tenant, client, secret string
	// pause is between attempts and between questions whether something is done; Azure's own Retry-After goes before it.
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

// connect finds the tenant like the driver when it is not given. A person's login in a browser, which the driver falls back
// to, is not possible in a Job.
func (a azureAccess) connect(ctx context.Context) (azureAPI, error) {
	if a.subscription == "" || a.client == "" || a.secret == "" {
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
