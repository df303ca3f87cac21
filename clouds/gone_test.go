package clouds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// TestIsGone reads testdata/gone.txt. A server that is taken for gone although it is there is lost, so that only words about the server
// itself count.
func TestIsGone(t *testing.T) {
	for _, line := range table(t, "gone.txt", 3) {
		require.Contains(t, []string{"gone", "unknown"}, line[0])
		require.Equal(t, line[0] == "gone", clouds.Of(line[1]).IsGone(line[2]), line)
	}
	require.True(t, clouds.Of("amazonec2").IsGone("InvalidInstanceID.NotFound: The instance ID 'i-1' does not exist\n\tstatus code: 400, request id: x"))
	require.False(t, clouds.Of("acme").IsGone("Panic in the driver: x\ngoroutine 1 [running]:\nmain.(*store).mustBeFoundOr(notfound.go:1)"))
	require.False(t, clouds.Of("acme").IsGone(""))
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
