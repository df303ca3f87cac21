package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "exoscale", ZoneFlag: "exoscale-availability-zone", ID: "Id", ProviderID: "exoscale://{Id}", Zone: "{AvailabilityZone}",
	KeyInPlace: true, KeyUnless: []string{"exoscale-ssh-key"},
	// Exoscale API v2, create-instance: "user-data: Instance Cloud-init user-data (base64
	// encoded)", up to 32,768 characters.
	UserData: UserData{Habit: PathAtCreate, Flag: "exoscale-userdata", Limit: Limit{Bytes: 32 << 10, Base64: true, Gzip: true}},
	NodeDriver: &NodeDriver{Description: "Exoscale.", Hosts: []string{"api.exoscale.ch"},
		Public: []string{"apiKey"}, Private: []string{"apiSecretKey"}, Files: map[string]string{"sshKey": "sshKey", "userdata": "userdata"}},
	Beside:    "its SSH key",
	Leftovers: "The driver leaves its security group and anti-affinity groups.",
	words: words{
		rules: []rule{
			{rkev1.ClassInvalid, []string{"missing an api key", "missing an api secret", "unable to find image", "response: bad request",
				"response: not found", "response: unprocessable"}},
			{rkev1.ClassUnauthorized, []string{"response: unauthorized"}},
			{rkev1.ClassQuota, []string{"limit reached", "limits reached", "resource limit", "payment required"}},
			{rkev1.ClassThrottled, []string{"too many requests"}},
			{rkev1.ClassCapacity, []string{"insufficient capacity", "not enough capacity", "insufficient storage"}},
			{rkev1.ClassTransient, []string{"response: conflict", "response: locked", "response: too early", "gateway timeout"}},
		},
		afterRequest: []string{"operation: ", "getinstance: "},
	},
})
