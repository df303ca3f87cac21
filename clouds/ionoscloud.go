package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// ionos-cloud/docker-machine-driver v7.0.8, ionoscloud.go, ionos_create_machine.go,
// internal/utils/client.go.
var _ = add(Cloud{
	Driver: "ionoscloud", ID: "ServerId", ProviderID: "ionos://{ServerId}", KeyInPlace: true,
	// The driver reads the data as YAML and writes it again with the hostname. The base64 flag
	// would take precedence over this one, and the switch would add rancher-machine's data.
	UserData: UserData{Habit: Inline, Flag: "ionoscloud-cloud-init", With: map[string]string{"ionoscloud-append-rke-cloud-init": "false"},
		Excludes: []string{"ionoscloud-cloud-init-b64", "ionoscloud-rancher-provision-user-data"}, CloudConfigOnly: true},
	Beside: "its NAT gateway, network interfaces, volume and IP block, and the LAN and data center made for it",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"401: authentication failed"}},
		{rkev1.ClassTransient, []string{"waiting returned a failed resource", "wait timeout has expired"}},
		{rkev1.ClassInvalid, []string{"404: resource is missing", "validation failed"}},
	},
		afterRequest: []string{"error waiting until", "error getting request status", "waiting returned a failed resource", "wait timeout has expired"}},
})
