package words_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/services/compute/mgmt/2019-12-01/compute"
	"github.com/aws/aws-sdk-go/aws"
	awscredentials "github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/ec2"
	"github.com/digitalocean/godo"
	"github.com/stretchr/testify/require"
	googlecompute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func askDigitalOcean(t *testing.T, url string) error {
	t.Helper()
	client, err := godo.New(nil, godo.SetBaseURL(url+"/"))
	require.NoError(t, err)
	_, _, err = client.Droplets.Create(t.Context(), &godo.DropletCreateRequest{Name: "m1", Region: "nyc3", Size: "s-1vcpu-1gb"})
	return err
}

func digitalOceanAnswers() []answer {
	say := func(id, message string) string {
		return fmt.Sprintf(`{"id":%q,"message":%q,"request_id":"r-1"}`, id, message)
	}
	return []answer{
		{"a token that is none", rkev1.ClassUnauthorized, 401, say("unauthorized", "Unable to authenticate you")},
		{"a token that may only read", rkev1.ClassUnauthorized, 403, say("forbidden", "You are not authorized to perform this operation")},
		{"a token without a scope", rkev1.ClassUnauthorized, 403, say("forbidden", "You are missing the required permission droplet:create.")},
		{"no more droplets", rkev1.ClassQuota, 422, say("unprocessable_entity", "creating this/these droplet(s) will exceed your droplet limit")},
		{"a size that is sold out", rkev1.ClassCapacity, 422, say("unprocessable_entity", "Size is not available in this region.")},
		{"a region that is full", rkev1.ClassCapacity, 422, say("unprocessable_entity", "The size you have selected is currently restricted in this region.")},
		{"too fast", rkev1.ClassThrottled, 429, say("too_many_requests", "API Rate limit exceeded.")},
		{"no such image", rkev1.ClassInvalid, 422, say("unprocessable_entity", "You specified an invalid image for Droplet creation.")},
		{"a name that is none", rkev1.ClassInvalid, 422, say("unprocessable_entity", "Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)")},
		{"a droplet that is at work", rkev1.ClassTransient, 422, say("unprocessable_entity", "Droplet already has a pending event.")},
		{"an accident", rkev1.ClassTransient, 500, say("server_error", "Server was unable to give you a response.")},
	}
}

func askAmazon(t *testing.T, url string) error {
	t.Helper()
	made, err := session.NewSession(&aws.Config{
		Region: new("eu-west-1"), Endpoint: new(url), MaxRetries: new(0),
		Credentials: awscredentials.NewStaticCredentials("AKIAEXAMPLE", "example", ""),
	})
	require.NoError(t, err)
	_, err = ec2.New(made).RunInstances(&ec2.RunInstancesInput{ImageId: new("ami-1"), MinCount: new(int64(1)), MaxCount: new(int64(1))})
	if err == nil {
		return nil
	}
	return fmt.Errorf("error launching instance: %s", err) //nolint:errorlint // as the driver says it
}

func amazonAnswers() []answer {
	say := func(code, message string) string {
		return `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>` + code + `</Code><Message>` + message +
			`</Message></Error></Errors><RequestID>r-1</RequestID></Response>`
	}
	return []answer{
		{"a key that is none", rkev1.ClassUnauthorized, 401, say("AuthFailure", "AWS was not able to validate the provided access credentials")},
		{"a secret that does not fit", rkev1.ClassUnauthorized, 403, say("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")},
		{"no permission", rkev1.ClassUnauthorized, 403, say("UnauthorizedOperation", "You are not authorized to perform this operation. Encoded authorization failure message: abc")},
		{"a session that is over", rkev1.ClassUnauthorized, 400, say("ExpiredToken", "The provided token has expired.")},
		{"an account that is blocked", rkev1.ClassUnauthorized, 400, say("Blocked", "This account is currently blocked and not recognized as a valid account.")},
		{"an account that is not yet verified", rkev1.ClassUnauthorized, 400, say("PendingVerification", "Your request for accessing resources in this region is being validated")},
		{"no more processors", rkev1.ClassQuota, 400, say("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance bucket")},
		{"no more instances", rkev1.ClassQuota, 400, say("InstanceLimitExceeded", "You have requested more instances (1) than your current instance limit of 0 allows for the specified instance type.")},
		{"no more disks", rkev1.ClassQuota, 400, say("VolumeLimitExceeded", "You have exceeded your maximum gp2 storage limit of 20 TiB in this region.")},
		{"no more network cards", rkev1.ClassQuota, 400, say("NetworkInterfaceLimitExceeded", "The maximum number of network interfaces has been reached.")},
		{"a type that is sold out", rkev1.ClassCapacity, 500, say("InsufficientInstanceCapacity", "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (eu-west-1a).")},
		{"a zone without the type", rkev1.ClassCapacity, 400, say("Unsupported", "Your requested instance type (m7g.large) is not supported in your requested Availability Zone (us-east-1e).")},
		{"a subnet that is full", rkev1.ClassCapacity, 400, say("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet &apos;subnet-1&apos;")},
		{"a price that is too low", rkev1.ClassCapacity, 400, say("SpotMaxPriceTooLow", "Your Spot request price of 0.01 is lower than the minimum required Spot request fulfillment price of 0.02.")},
		{"too fast", rkev1.ClassThrottled, 503, say("RequestLimitExceeded", "Request limit exceeded.")},
		{"an image that is gone", rkev1.ClassInvalid, 400, say("InvalidAMIID.NotFound", "The image id &apos;[ami-1]&apos; does not exist")},
		{"a profile that is none", rkev1.ClassInvalid, 400, say("InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name")},
		{"an image of another processor", rkev1.ClassInvalid, 400, say("InvalidParameterValue", "The architecture &apos;x86_64&apos; of the specified instance type does not match the architecture &apos;arm64&apos; of the specified AMI.")},
		{"an image that must be subscribed to", rkev1.ClassUnauthorized, 401, say("OptInRequired", "In order to use this AWS Marketplace product you need to accept terms and subscribe.")},
		{"an accident", rkev1.ClassTransient, 500, say("InternalError", "An internal error has occurred")},
		{"too much to do", rkev1.ClassTransient, 503, say("Unavailable", "The server is overloaded and can&apos;t handle the request.")},
	}
}

func askAzure(t *testing.T, url string) error {
	t.Helper()
	client := compute.NewVirtualMachinesClientWithBaseURI(url, "s-1")
	client.RetryAttempts, client.RetryDuration = 1, time.Millisecond
	_, err := client.CreateOrUpdate(t.Context(), "rg", "m1", compute.VirtualMachine{})
	return err
}

func azureAnswers() []answer {
	say := func(code, message string) string {
		return fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, code, message)
	}
	return []answer{
		{"a token that is none", rkev1.ClassUnauthorized, 401, say("InvalidAuthenticationToken", "The access token is invalid.")},
		{"no permission", rkev1.ClassUnauthorized, 403, say("AuthorizationFailed", "The client 'c' with object id 'c' does not have authorization to perform action "+
			"'Microsoft.Compute/virtualMachines/write' over scope '/subscriptions/s-1/resourceGroups/rg'")},
		{"a subscription that it does not see", rkev1.ClassUnauthorized, 404, say("SubscriptionNotFound", "The subscription 's-1' could not be found.")},
		{"a subscription that is not paid", rkev1.ClassUnauthorized, 409, say("ReadOnlyDisabledSubscription", "The subscription 's-1' is disabled and therefore marked as read only.")},
		{"no more processors", rkev1.ClassQuota, 409, say("OperationNotAllowed", "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.")},
		{"no more of the family", rkev1.ClassQuota, 409, say("QuotaExceeded", "Operation results in exceeding quota limits of Core. Maximum allowed: 4, Current in use: 4")},
		{"no more addresses", rkev1.ClassQuota, 400, say("PublicIPCountLimitReached", "Cannot create more than 10 public IP addresses for this subscription in this region.")},
		{"a size that is sold out", rkev1.ClassCapacity, 409, say("SkuNotAvailable", "The requested size for resource '/x' is currently not available in location 'westus' zones ''.")},
		{"a zone that is full", rkev1.ClassCapacity, 409, say("ZonalAllocationFailed", "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone.")},
		{"too many wishes", rkev1.ClassCapacity, 409, say("OverconstrainedAllocationRequest", "The VM size (or combination of VM sizes) required by this deployment cannot be provisioned")},
		{"too fast", rkev1.ClassThrottled, 429, say("TooManyRequests", "The server rejected the request because too many requests have been received for this subscription.")},
		{"too fast for the subscription", rkev1.ClassThrottled, 429, say("SubscriptionRequestsThrottled", "Number of write requests for subscription exceeded the limit")},
		{"no such image", rkev1.ClassInvalid, 404, say("PlatformImageNotFound", "The platform image 'a:b:c:latest' is not available.")},
		{"no such place", rkev1.ClassInvalid, 400, say("LocationNotAvailableForResourceType", "The provided location 'mars' is not available for resource type 'Microsoft.Compute/virtualMachines'.")},
		{"a policy against it", rkev1.ClassInvalid, 403, say("RequestDisallowedByPolicy", "Resource 'm1' was disallowed by policy.")},
		{"a product without a contract", rkev1.ClassInvalid, 400, say("ResourcePurchaseValidationFailed", "User failed validation to purchase resources.")},
		{"a group that is going away", rkev1.ClassTransient, 409, say("ResourceGroupBeingDeleted", "The resource group 'rg' is in deprovisioning state and cannot perform this operation.")},
		{"another one at work", rkev1.ClassTransient, 409, say("AnotherOperationInProgress", "Another operation on this or dependent resource is in progress.")},
		{"an accident", rkev1.ClassTransient, 500, say("InternalExecutionError", "An internal execution error occurred. Please retry later.")},
	}
}

func askGoogle(t *testing.T, url string) error {
	t.Helper()
	service, err := googlecompute.NewService(t.Context(), option.WithEndpoint(url), option.WithoutAuthentication())
	require.NoError(t, err)
	_, err = service.Instances.Insert("p", "us-central1-a", &googlecompute.Instance{Name: "m1"}).Context(t.Context()).Do()
	return err
}

func googleAnswers() []answer {
	say := func(code int, reason, message string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"errors":[{"message":%q,"domain":"global","reason":%q}]}}`, code, message, message, reason)
	}
	return []answer{
		{"a token that is none", rkev1.ClassUnauthorized, 401, say(401, "authError", "Request had invalid authentication credentials. Expected OAuth 2 access token.")},
		{"no permission", rkev1.ClassUnauthorized, 403, say(403, "forbidden", "Required 'compute.instances.create' permission for 'projects/p/zones/us-central1-a/instances/m1'")},
		{"an API that is not enabled", rkev1.ClassUnauthorized, 403, say(403, "accessNotConfigured", "Compute Engine API has not been used in project 1 before or it is disabled.")},
		{"a project that is not paid", rkev1.ClassUnauthorized, 403, say(403, "forbidden", "This API method requires billing to be enabled.")},
		{"scopes that do not suffice", rkev1.ClassUnauthorized, 403, say(403, "insufficientPermissions", "Request had insufficient authentication scopes.")},
		{"no more processors", rkev1.ClassQuota, 403, say(403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 8.0 in region us-central1.")},
		{"too fast", rkev1.ClassThrottled, 403, say(403, "rateLimitExceeded", "Rate Limit Exceeded")},
		{"too many in a minute", rkev1.ClassThrottled, 403, say(403, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com'")},
		{"a zone that is full", rkev1.ClassCapacity, 503, say(503, "resourcePoolExhausted", "The zone 'projects/p/zones/us-central1-a' does not have enough resources available to fulfill the request.")},
		{"no such type", rkev1.ClassInvalid, 400, say(400, "invalid", "Invalid value for field 'resource.machineType': 'x'. The URL is malformed.")},
		{"no such image", rkev1.ClassInvalid, 404, say(404, "notFound", "The resource 'projects/i/global/images/none' was not found")},
		{"a name that is taken", rkev1.ClassTransient, 409, say(409, "alreadyExists", "The resource 'projects/p/zones/us-central1-a/instances/m1' already exists")},
		{"a disk that is not ready", rkev1.ClassTransient, 400, say(400, "resourceNotReady", "The resource 'projects/p/zones/us-central1-a/disks/d' is not ready")},
		{"an accident", rkev1.ClassTransient, 503, say(503, "backendError", "Backend Error")},
	}
}
