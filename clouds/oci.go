package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// rancher-plugins/rancher-machine-driver-oci v1.3.1, pkg/drivers/oci; errors: oracle/oci-go-sdk
// v65, common/errors.go.
var _ = add(Cloud{
	Driver: "oci", ID: "InstanceID", ProviderID: "oci://{InstanceID}",
	// The driver sends its own script, and has no flag for another.
	UserData: UserData{Habit: None},
	NodeDriver: &NodeDriver{Description: "Oracle Cloud Infrastructure.", Hosts: []string{"*.oraclecloud.com"},
		Public: []string{"tenancyId", "userId", "fingerprint"}, Private: []string{"privateKeyContents"}, Passwords: []string{"privateKeyPassphrase"},
		Plugin: Plugin{URL: "https://github.com/rancher-plugins/rancher-machine-driver-oci/releases/download/v1.3.0/docker-machine-driver-oci-linux",
			Checksums: map[string]string{"amd64": "0a1afa6a0af85ecf3d77cc554960e36e1be5fd12b22b0155717b9289669e4021"}}},
	Beside: "its boot volume",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"notauthenticated", "notauthorized", "error code: notauthorizedornotfound"}},
		{rkev1.ClassThrottled, []string{"toomanyrequests"}},
		{rkev1.ClassQuota, []string{"limitexceeded", "quotaexceeded"}},
		{rkev1.ClassCapacity, []string{"out of host capacity", "out of capacity"}},
		{rkev1.ClassTransient, []string{"internalservererror", "incorrectstate"}},
		{rkev1.ClassInvalid, []string{"invalidparameter", "cannotparserequest", "missingparameter"}},
	}, elsewhere: []string{"notauthorizedornotfound"}},
})
