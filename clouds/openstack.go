package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "openstack", ZoneFlag: "openstack-availability-zone", CloudInit: "openstack", EnvPrefix: "OS",
	ID: "MachineId", ProviderID: "openstack:///{MachineId}", Zone: "{AvailabilityZone}",
	Place:      map[string]string{"Region": "openstack-region"},
	KeyInPlace: true, KeyUnless: []string{"openstack-keypair-name", "openstack-private-key-file"},
	UserData: UserData{Habit: PathAtCreate, Flag: "openstack-user-data-file", Limit: novaUserData},
	Finder:   Finder{Kind: ByNameAndKey, Needs: []string{"openstack-auth-url", "openstack-keypair-name"}},
	NodeDriver: &NodeDriver{Description: "OpenStack.",
		Private: []string{"password", "applicationCredentialSecret"}, Optional: []string{"password", "applicationCredentialSecret"},
		Files: map[string]string{"cacert": "cacert", "privateKeyFile": "privateKeyFile", "userDataFile": "userDataFile"}},
	Beside:    "its floating IP address and SSH key pair",
	Leftovers: "The driver leaves the volume that it made because of openstack-volume-size, unless the server starts from it.",
	words:     words{rules: openstackRules},
})

// novaUserData is of the OpenStack Compute API, "Create Server", user_data: "maximum size is 65535
// bytes", base64 encoded.
var novaUserData = Limit{Bytes: 65535, Base64: true, Gzip: true}

// openstackRules match the responses of Nova, Neutron, Cinder and Keystone, and the texts of both
// Gophercloud releases.
var openstackRules = []rule{
	{rkev1.ClassUnauthorized, []string{"authentication failed", "unauthorized", "you must provide exactly one of", "policy doesn't allow",
		"provide a username", "disallowed by policy", "re-authenticate"}},
	{rkev1.ClassQuota, []string{"quota exceeded", "quota", "volumelimitexceeded", "volumesizeexceeds"}},
	{rkev1.ClassThrottled, []string{"rate-limited", "rate limited", "overlimit", "over limit", "too many requests"}},
	{rkev1.ClassCapacity, []string{"no valid host was found", "no more ip addresses", "not enough", "no more floating ips", "no ips available",
		"no valid backend", "exceeded maximum number of retries"}},
	{rkev1.ClassTransient, []string{"the service is currently unable to handle", "is in error state", "server timed out waiting",
		"cannot '"}},
	{rkev1.ClassInvalid, []string{"no endpoint was found", "no suitable endpoint", "unable to find", "invalid key_name", "badrequest",
		"bad request with", "missing input for argument", "invalid input provided", "must be specified using the cli option",
		"missing one of the following environment", "missing environment variable", "ill-formed ca certificate", "resource not found",
		"endpoint type must be", "multiple matching endpoints", "invalid endpoint type", "method not allowed"}},
	{rkev1.ClassUnauthorized, []string{"forbidden"}},
}
