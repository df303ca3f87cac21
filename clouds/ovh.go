package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// yadutaf/docker-machine-driver-ovh v1.1.0, driver.go, and its fork
// sneederco/docker-machine-driver-ovh v1.1.0-1, which alone has the flag for user data; errors:
// ovh/go-ovh, ovh/error.go. The private key is not called id_rsa.
var _ = add(Cloud{
	Driver: "ovh", ID: "InstanceID", ProviderID: "openstack:///{InstanceID}",
	UserData: UserData{Habit: PathEarly, Flag: "ovh-userdata"},
	Beside:   "its SSH key",
	// The SDK prints 'OVHcloud API error (status code N): Class: "message"'.
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"invalidcredential", "notcredential", "notgrantedcall", "client::forbidden"}},
		{rkev1.ClassInvalid, []string{"client::badrequest", "client::notfound"}},
	}},
})
