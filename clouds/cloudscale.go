package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// cloudscale-ch/docker-machine-driver-cloudscale v1.2.0, driver.go.
var _ = add(Cloud{
	Driver: "cloudscale", ID: "UUID", ProviderID: "cloudscale://{UUID}", Zone: "{Zone}", KeyInPlace: true,
	// The two flags for user data exclude each other, which only PreCreateCheck reports.
	UserData: UserData{Habit: PathAtCreate, Flag: "cloudscale-userdatafile", Excludes: []string{"cloudscale-userdata"}},
	NodeDriver: &NodeDriver{Description: "cloudscale.ch.", Hosts: []string{"objects.rma.cloudscale.ch"},
		Plugin: Plugin{URL: "https://github.com/cloudscale-ch/docker-machine-driver-cloudscale/releases/download/v1.2.0/docker-machine-driver-cloudscale_v1.2.0_linux_amd64.tar.gz",
			Checksums: map[string]string{"amd64": "e33fbd6c2f87b1c470bcb653cc8aa50baf914a9d641a2f18f86a07c398cfb544"}}},
	Beside: "its volumes",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"authentication credentials were not provided", "invalid token"}},
		{rkev1.ClassInvalid, []string{"detail: not found", "does not exist"}},
	}},
})
