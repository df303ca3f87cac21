package words_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	egoscale "github.com/exoscale/egoscale/v3"
	"github.com/exoscale/egoscale/v3/credentials"
	"github.com/gophercloud/gophercloud"
	"github.com/gophercloud/gophercloud/openstack/compute/v2/servers"
	"github.com/hashicorp/go-retryablehttp"
	oldgophercloud "github.com/rackspace/gophercloud"
	oldservers "github.com/rackspace/gophercloud/openstack/compute/v2/servers"
	"github.com/rancher/machine/drivers/softlayer"
	"github.com/stretchr/testify/require"
	"github.com/vmware/govcloudair"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func askOpenstack(t *testing.T, url string) error {
	t.Helper()
	client := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "t"}, Endpoint: url + "/"}
	_, err := servers.Create(client, servers.CreateOpts{Name: "m1", FlavorRef: "f", ImageRef: "i"}).Extract()
	return err
}

func openstackAnswers() []answer {
	say := func(kind, message string, code int) string {
		return fmt.Sprintf(`{%q: {"message": %q, "code": %d}}`, kind, message, code)
	}
	return []answer{
		{"a token that is none", rkev1.ClassUnauthorized, 401, `{"error": {"code": 401, "title": "Unauthorized"}}`},
		{"no permission", rkev1.ClassUnauthorized, 403, say("forbidden", "Policy doesn't allow os_compute_api:servers:create to be performed.", 403)},
		{"a network of others", rkev1.ClassUnauthorized, 403, say("forbidden", "Access to the network is not for you", 403)},
		{"no more processors", rkev1.ClassQuota, 403, say("forbidden", "Quota exceeded for cores: Requested 4, but already used 20 of 20 cores", 403)},
		{"no more addresses", rkev1.ClassQuota, 409, say("NeutronError", "Quota exceeded for resources: ['floatingip'].", 409)},
		{"no more keys", rkev1.ClassQuota, 403, say("forbidden", "Quota exceeded, too many key pairs.", 403)},
		{"too fast", rkev1.ClassThrottled, 413, say("overLimit", "This request was rate-limited.", 413)},
		{"too fast, newer", rkev1.ClassThrottled, 429, say("overLimit", "Rate limit.", 429)},
		{"a pool that is empty", rkev1.ClassCapacity, 400, say("badRequest", "No more IP addresses available on network 5.", 400)},
		{"no such key", rkev1.ClassInvalid, 400, say("badRequest", "Invalid key_name provided.", 400)},
		{"no such flavour", rkev1.ClassInvalid, 400, say("badRequest", "Flavor f could not be found.", 400)},
		{"no such thing", rkev1.ClassInvalid, 404, say("itemNotFound", "Image not found.", 404)},
		{"a server that is at work", rkev1.ClassTransient, 409, say("conflictingRequest", "Cannot 'delete' instance i while it is in vm_state building", 409)},
		{"an accident", rkev1.ClassTransient, 500, say("computeFault", "The server has either erred or is incapable of performing the requested operation.", 500)},
		{"not now", rkev1.ClassTransient, 503, ""},
	}
}

func askRackspace(t *testing.T, url string) error {
	t.Helper()
	client := &oldgophercloud.ServiceClient{ProviderClient: &oldgophercloud.ProviderClient{TokenID: "t"}, Endpoint: url + "/"}
	_, err := oldservers.Create(client, oldservers.CreateOpts{Name: "m1", FlavorRef: "f", ImageRef: "i"}).Extract()
	return err
}

func rackspaceAnswers() []answer {
	return []answer{
		{"a token that is none", rkev1.ClassUnauthorized, 401, `{"unauthorized": {"code": 401, "message": "Unable to authenticate user with credentials provided."}}`},
		{"no permission", rkev1.ClassUnauthorized, 403, `{"forbidden": {"message": "Suspended", "code": 403}}`},
		{"no more memory", rkev1.ClassQuota, 413, `{"overLimit": {"message": "Quota exceeded for ram: Requested 8192, but already used 131072 of 131072 ram", "code": 413}}`},
		{"too fast", rkev1.ClassThrottled, 413, `{"overLimit": {"message": "OverLimit Retry...", "code": 413, "retryAfter": "2026-01-01T00:00:00Z"}}`},
		{"no such image", rkev1.ClassInvalid, 400, `{"badRequest": {"message": "Cannot find requested image i: Image i could not be found.", "code": 400}}`},
		{"an accident", rkev1.ClassTransient, 500, `{"computeFault": {"code": 500, "message": "an error"}}`},
		{"not now", rkev1.ClassTransient, 503, `{"serviceUnavailable": {"code": 503}}`},
	}
}

func askExoscale(t *testing.T, url string) error {
	t.Helper()
	// As the library's own, but for the time between its attempts.
	patient := retryablehttp.NewClient()
	patient.RetryWaitMin, patient.RetryWaitMax, patient.Logger = time.Millisecond, time.Millisecond, nil
	client, err := egoscale.NewClient(credentials.NewStaticCredentials("EXOexample", "example"),
		egoscale.ClientOptWithEndpoint(egoscale.Endpoint(url)), egoscale.ClientOptWithHTTPClient(patient.StandardClient()))
	require.NoError(t, err)
	_, err = client.CreateInstance(t.Context(), egoscale.CreateInstanceRequest{
		Name: "m1", DiskSize: 10, Template: &egoscale.Template{ID: "6f0b8d3e-0d53-4b1f-9a3a-1c2d3e4f5a6b"},
		InstanceType: &egoscale.InstanceType{ID: "6f0b8d3e-0d53-4b1f-9a3a-1c2d3e4f5a6c"},
	})
	return err
}

func exoscaleAnswers() []answer {
	say := func(message string) string { return fmt.Sprintf(`{"message":%q}`, message) }
	return []answer{
		{"a key that is none", rkev1.ClassUnauthorized, 401, say("Invalid signature")},
		{"no permission", rkev1.ClassUnauthorized, 403, say("Forbidden by role policy for compute")},
		{"an account that is not paid", rkev1.ClassQuota, 402, say("Organization is suspended")},
		{"no more instances", rkev1.ClassQuota, 403, say("Instance limit reached")},
		{"too fast, which the library does not tell from an accident", rkev1.ClassTransient, 429, say("slow down")},
		{"no such template", rkev1.ClassInvalid, 404, say("Template not found")},
		{"a disk that is too small", rkev1.ClassInvalid, 400, say("disk-size must be between 10 and 51200")},
		{"another one at work", rkev1.ClassTransient, 409, say("Resource is in a state that does not allow this")},
		{"locked", rkev1.ClassTransient, 423, say("")},
		{"an accident", rkev1.ClassTransient, 500, say("")},
		{"not now", rkev1.ClassTransient, 503, say("")},
		{"too late", rkev1.ClassTransient, 504, say("")},
	}
}

func askSoftlayer(t *testing.T, url string) error {
	t.Helper()
	_, err := softlayer.NewClient("u", "k", url).VirtualGuest().Create(&softlayer.HostSpec{Hostname: "m1", Domain: "example.com"})
	if err == nil {
		return nil
	}
	return fmt.Errorf("Error creating host: %q", err) //nolint:errorlint // the driver's own words
}

func softlayerAnswers() []answer {
	say := func(message string) string { return fmt.Sprintf(`{"error":%q,"code":"SoftLayer_Exception"}`, message) }
	return []answer{
		{"a key that is none", rkev1.ClassUnauthorized, 401, say("Invalid API token.")},
		{"no permission", rkev1.ClassUnauthorized, 403, say("Access Denied.")},
		{"too fast", rkev1.ClassThrottled, 429, say("Rate limit exceeded.")},
		{"a data centre that is full", rkev1.ClassCapacity, 500, say("There is insufficient capacity to complete the request.")},
		{"no such size", rkev1.ClassInvalid, 500, say("Invalid value provided for 'startCpus'.")},
	}
}

func askVcloudair(t *testing.T, url string) error {
	t.Helper()
	t.Setenv("VCLOUDAIR_ENDPOINT", url+"/api")
	client, err := govcloudair.NewClient()
	require.NoError(t, err)
	_, err = client.Authenticate("u", "p", "c", "v")
	return err
}

func vcloudairAnswers() []answer {
	say := func(code int, message string) string {
		return fmt.Sprintf(`<Error xmlns="http://www.vmware.com/vcloud/v1.5" message=%q majorErrorCode="%d" minorErrorCode="X"/>`, message, code)
	}
	return []answer{
		{"a password that is none", rkev1.ClassUnauthorized, 401, say(401, "Wrong user name or password")},
		{"no permission", rkev1.ClassUnauthorized, 403, say(403, "Access is not allowed")},
		{"no more storage", rkev1.ClassQuota, 400, say(400, "The requested operation will exceed the VDC's storage quota")},
		{"another one at work", rkev1.ClassTransient, 400, say(400, "The entity vApp is busy completing an operation.")},
		{"no such thing", rkev1.ClassInvalid, 404, say(404, "No such service")},
		{"an accident", rkev1.ClassTransient, 500, say(500, "Something")},
		{"not now", rkev1.ClassTransient, 503, say(503, "Later")},
	}
}

func askKubernetes(t *testing.T, url string) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: url, QPS: -1})
	require.NoError(t, err)
	_, err = client.CoreV1().Pods("n").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}, metav1.CreateOptions{})
	return err
}

func kubernetesAnswers() []answer {
	say := func(code int, reason, message string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
	}
	return []answer{
		{"a token that is none", rkev1.ClassUnauthorized, 401, say(401, "Unauthorized", "Unauthorized")},
		{"no permission", rkev1.ClassUnauthorized, 403, say(403, "Forbidden", `pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"`)},
		{"no more pods", rkev1.ClassQuota, 403, say(403, "Forbidden", `pods "m1" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=10, limited: pods=10`)},
		{"a policy against it", rkev1.ClassInvalid, 403, say(403, "Forbidden", `pods "m1" is forbidden: violates PodSecurity "restricted:latest": privileged`)},
		{"a webhook against it", rkev1.ClassInvalid, 400, say(400, "", `admission webhook "w.example.com" denied the request: no`)},
		{"a field that is wrong", rkev1.ClassInvalid, 422, say(422, "Invalid", `Pod "m1" is invalid: spec.containers: Required value`)},
		{"no such namespace", rkev1.ClassInvalid, 404, say(404, "NotFound", `namespaces "n" not found`)},
		{"a namespace that is going away", rkev1.ClassTransient, 403, say(403, "Forbidden", `pods "m1" is forbidden: unable to create new content in namespace n because it is being terminated`)},
		{"an accident", rkev1.ClassTransient, 500, say(500, "InternalError", "Internal error occurred: failed calling webhook")},
		{"not now", rkev1.ClassTransient, 503, say(503, "ServiceUnavailable", "the server is currently unable to handle the request")},
		{"a change meanwhile", rkev1.ClassTransient, 409, say(409, "Conflict", `Operation cannot be fulfilled on pods "m1": the object has been modified`)},
		{"too late", rkev1.ClassTransient, 504, say(504, "Timeout", "Timeout: request did not complete within requested timeout")},
		{"a store without a leader", rkev1.ClassTransient, 500, say(500, "", strings.Repeat("x", 3)+" etcdserver: leader changed")},
	}
}
