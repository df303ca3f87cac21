package clouds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// TestIsGone: a server that is taken for gone although it is there is lost, so that only words about the server itself count.
func TestIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		driver, text string
		want         bool
	}{
		"digitalocean, the driver":            {"digitalocean", "machine m1 not found", true},
		"digitalocean, the API":               {"digitalocean", `GET https://api.digitalocean.com/v2/droplets/1: 404 (request "x") The resource you were accessing could not be found.`, true},
		"digitalocean, only the number":       {"digitalocean", `GET https://api.digitalocean.com/v2/droplets/1: 404 (request "x") `, true},
		"digitalocean, another number":        {"digitalocean", "droplet 404404 is locked", false},
		"amazonec2, the API":                  {"amazonec2", "InvalidInstanceID.NotFound: The instance ID 'i-1' does not exist\n\tstatus code: 400, request id: x", true},
		"amazonec2, the driver":               {"amazonec2", "instance i-1 not found", true},
		"amazonec2, a network":                {"amazonec2", "InvalidSubnetID.NotFound: The subnet ID 'subnet-1' does not exist", false},
		"amazonec2, an image":                 {"amazonec2", "AMI ami-1 not found on region eu-west-1a", false},
		"azure, the machine":                  {"azure", `compute.VirtualMachinesClient#Get: Failure responding to request: StatusCode=404 -- Original Error: autorest/azure: Service returned an error. Status=404 Code="ResourceNotFound" Message="The Resource 'Microsoft.Compute/virtualMachines/m1' under resource group 'rg' was not found."`, true},
		"azure, its group":                    {"azure", `StatusCode=404 -- Code="ResourceGroupNotFound" Message="Resource group 'rg' could not be found."`, true},
		"azure, the subscription":             {"azure", `StatusCode=404 -- Code="SubscriptionNotFound" Message="The subscription 's-1' could not be found."`, false},
		"azure, the application":              {"azure", "adal: Refresh request failed. AADSTS700016: Application with identifier 'c' was not found in the directory 'd'.", false},
		"google, the instance":                {"google", "googleapi: Error 404: The resource 'projects/p/zones/z/instances/m1' was not found, notFound", true},
		"google, the project":                 {"google", "googleapi: Error 404: The resource 'projects/p' was not found, notFound", false},
		"google, the zone":                    {"google", "googleapi: Error 404: The resource 'projects/p/zones/z' was not found, notFound", false},
		"google, a file":                      {"google", "google: could not find default credentials", false},
		"openstack":                           {"openstack", "Resource not found", true},
		"openstack, the service":              {"openstack", "No suitable endpoint could be found in the service catalog.", false},
		"vmwarevsphere, the machine":          {"vmwarevsphere", "vm 'm1' not found", true},
		"vmwarevsphere, the object":           {"vmwarevsphere", "ServerFaultCode: The object 'vim.VirtualMachine:vm-1' has already been deleted or has not been completely created", true},
		"vmwarevsphere, the data centre":      {"vmwarevsphere", "datacenter 'DC1' not found", false},
		"vmwarevsphere, no data centre":       {"vmwarevsphere", "no default datacenter found", false},
		"vmwarevsphere, a folder":             {"vmwarevsphere", "folder '/DC1/vm/team' not found", false},
		"exoscale":                            {"exoscale", "GetInstance: http response: Not Found: Instance not found", true},
		"vmwarevcloudair":                     {"vmwarevcloudair", "can't find vApp", true},
		"vmwarevcloudair, the computer":       {"vmwarevcloudair", "error processing compute action: API Error: 404: No such service", false},
		"softlayer":                           {"softlayer", "Error in response: Unable to find object with id of '123'.", true},
		"pod":                                 {"pod", `pods "m1" not found`, true},
		"linode":                              {"linode", "[404] Not found", true},
		"vultr":                               {"vultr", `{"error":"Invalid instance ID","status":404}`, true},
		"vultr, its firewall":                 {"vultr", `{"error":"Invalid firewall group","status":404}`, false},
		"oci, no right or no instance":        {"oci", "Http Status Code: 404. Error Code: NotAuthorizedOrNotFound. Message: x", false},
		"yandex":                              {"yandex", "rpc error: code = NotFound desc = Instance x not found", true},
		"nutanix, in its task":                {"nutanix", "ENTITY_NOT_FOUND", true},
		"hetzner, an image":                   {"hetzner", "could not get image: image not found (not_found)", false},
		"hetzner":                             {"hetzner", "server with ID '1' not found (not_found)", true},
		"any, without its own program":        {"acme", `exec: "acmectl": executable file not found in $PATH`, false},
		"any, without its credentials":        {"acme", "401: user not found", false},
		"any, without a file of credentials":  {"acme", "credentials file not found", false},
		"any, without an answer":              {"acme", "dial tcp: i/o timeout", false},
		"any, by an address that has a word":  {"acme", "Get \"https://api.example.com/notfound\": EOF", false},
		"any, a name server that knows none":  {"acme", "dial tcp: lookup api.example.com: no such host", false},
		"a driver that panics":                {"acme", "Panic in the driver: x\ngoroutine 1 [running]:\nmain.(*store).mustBeFoundOr(notfound.go:1)", false},
		"nothing said":                        {"acme", "", false},
		"gone for ever":                       {"acme", "HTTP/1.1 410 Gone", true},
		"a class that the driver has no word": {"acme", "server no longer exists", true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, clouds.Of(c.driver).IsGone(c.text), c.text)
		})
	}
}

// TestNothingMade: after the cloud has agreed, no class of error means that there is no server.
func TestNothingMade(t *testing.T) {
	for name, c := range map[string]struct {
		driver, class, text string
		want                bool
	}{
		"refused as wrong":     {"acme", rkev1.ClassInvalid, "", true},
		"not allowed":          {"acme", rkev1.ClassUnauthorized, "", true},
		"no more":              {"acme", rkev1.ClassQuota, "", true},
		"sold out":             {"acme", rkev1.ClassCapacity, "", true},
		"too fast":             {"acme", rkev1.ClassThrottled, "", true},
		"an accident":          {"acme", rkev1.ClassTransient, "", false},
		"not understood":       {"acme", rkev1.ClassUnknown, "", false},
		"no class":             {"acme", "", "", false},
		"a spot request":       {"amazonec2", rkev1.ClassCapacity, "error request spot instance: SpotMaxPriceTooLow: x", true},
		"a spot that comes":    {"amazonec2", rkev1.ClassThrottled, "error fulfilling spot request: RequestLimitExceeded: Request limit exceeded.", false},
		"a spot unseen":        {"amazonec2", rkev1.ClassUnauthorized, "error describing previously made spot instance request: UnauthorizedOperation: x", false},
		"a spot without id":    {"amazonec2", rkev1.ClassThrottled, "error resolving spot instance to real instance: RequestLimitExceeded: x", false},
		"exoscale, refused":    {"exoscale", rkev1.ClassThrottled, "CreateInstance: http response: Too Many Requests: x", true},
		"exoscale, waited for": {"exoscale", rkev1.ClassThrottled, "GetOperation: http response: Too Many Requests: x", false},
		"exoscale, looked at":  {"exoscale", rkev1.ClassUnauthorized, "GetInstance: http response: Unauthorized: x", false},
		"exoscale, went wrong": {"exoscale", rkev1.ClassCapacity, `operation: "6f0b" {}, state: failure, reason: "busy", message: "Insufficient capacity"`, false},
		"vcloudair, refused":   {"vmwarevcloudair", rkev1.ClassQuota, "error instantiating a new vApp: API Error: 400: exceed the VDC's storage quota", true},
		"vcloudair, a task":    {"vmwarevcloudair", rkev1.ClassUnauthorized, "error retreiving task: API Error: 401: x", false},
		"vcloudair, later":     {"vmwarevcloudair", rkev1.ClassInvalid, "error customizing VM: API Error: 400: x", false},
		"vcloudair, its gate":  {"vmwarevcloudair", rkev1.ClassQuota, "error reconfiguring Edge Gateway: API Error: 400: quota", false},
		"vcloudair, the end":   {"vmwarevcloudair", rkev1.ClassUnauthorized, "error processing session delete for vchs: API Error: 401: x", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, clouds.Of(c.driver).NothingMade(c.class, c.text), c.text)
		})
	}
}
