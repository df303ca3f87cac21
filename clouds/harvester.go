package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// harvester/docker-machine-driver-harvester v1.0.6, harvester. Its errors come from the Kubernetes
// API.
var _ = add(Cloud{
	Driver: "harvester", ByName: true, KeyInPlace: true, KeyUnless: []string{"harvester-ssh-private-key-path"},
	Place: map[string]string{"VMNamespace": "harvester-vm-namespace"},
	// The driver joins this file with the user's inline user data, and both with its own.
	UserData: UserData{Habit: PathAtCreate, Flag: "harvester-cloud-config", Merges: []string{"harvester-user-data"}, CloudConfigOnly: true},
	NodeDriver: &NodeDriver{Description: "SUSE Virtualization (Harvester).", Hosts: []string{"github.com"},
		Public: []string{"clusterType", "clusterId"}, Private: []string{"kubeconfigContent"}, Optional: []string{"clusterId"},
		Defaults: map[string]string{"clusterType": "imported"},
		Plugin: Plugin{URL: "https://github.com/harvester/docker-machine-driver-harvester/releases/download/v1.0.3/docker-machine-driver-harvester-{arch}.tar.gz",
			Checksums: map[string]string{"amd64": "cd380ba3f33f104523420d973c4dd724a0973bceec0b303f348ca03d446af506", "arm64": "e9f853eeedcec687f618286f8ff45ba694cdc71ece9cf11600de931afa204779"}}},
	Beside: "its volumes",
	words: words{rules: []rule{
		{rkev1.ClassQuota, []string{"exceeded quota"}},
		{rkev1.ClassCapacity, []string{"too many retries waiting for machine to be running"}},
		{rkev1.ClassUnauthorized, []string{"cannot create resource", "cannot get resource", "cannot delete resource", "cannot list resource", "asked for the client to provide credentials"}},
		{rkev1.ClassTransient, []string{"object has been modified", "etcdserver", "currently unable to handle the request"}},
		{rkev1.ClassInvalid, []string{"denied the request", "already exists", " is invalid: "}},
	}},
})
