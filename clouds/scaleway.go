package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// scaleway/docker-machine-driver-scaleway v1.6, driver/scaleway.go; errors: scaleway-cli v1.10.2,
// pkg/api, and scaleway-sdk-go, scw/errors.go.
var _ = add(Cloud{
	Driver: "scaleway", ID: "ServerID",
	// Without this flag the server gets a random name. The server is made stopped, and gets its
	// cloud-init and starts after.
	NameFlag: "scaleway-name", InSteps: true,
	UserData: UserData{Habit: None},
	Beside:   "its IP address",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"permissions_denied", "denied_authentication", "authentication is denied"}},
		{rkev1.ClassQuota, []string{"has reached its quota", "quota exceeded", "quotas_exceeded"}},
		{rkev1.ClassCapacity, []string{"is out of stock", "out_of_stock"}},
		{rkev1.ClassTransient, []string{"transient_state"}},
		{rkev1.ClassInvalid, []string{"invalid_request_error", "invalid_arguments"}},
	}},
})
