package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// phoenixnap/docker-machine-driver-pnap v0.5.1, pkg/drivers/pnap/pnap.go; names:
// phoenixnap/go-sdk-bmc, bmcapi/api/openapi.yaml.
var _ = add(Cloud{
	Driver: "pnap", ID: "ID", ProviderID: "phoenixnap://{ID}",
	UserData: UserData{Habit: PathAtCreate, Flag: "pnap-userdata"},
	NodeDriver: &NodeDriver{Description: "phoenixNAP Bare Metal Cloud.", Hosts: []string{"api.securedservers.com", "api.phoenixnap.com", "auth.phoenixnap.com"},
		Public: []string{"clientIdentifier"}, Private: []string{"clientSecret"},
		Plugin: Plugin{URL: "https://github.com/phoenixnap/docker-machine-driver-pnap/releases/download/v0.5.1/docker-machine-driver-pnap_0.5.1_linux_amd64.zip",
			Checksums: map[string]string{"amd64": "5847599c24c137975fd190747a15ad4db9529ae35059b60e5f8bc9a470d55229"}}},
	words: words{rules: []rule{
		{rkev1.ClassCapacity, []string{"no servers of type"}},
		{rkev1.ClassUnauthorized, []string{"returned code 401", "returned code 403", "invalid_client"}},
		{rkev1.ClassThrottled, []string{"returned code 429"}},
		{rkev1.ClassTransient, []string{"returned code 5"}},
		{rkev1.ClassInvalid, []string{"validation errors", "returned code 400"}},
	}},
})
