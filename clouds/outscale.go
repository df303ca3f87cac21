package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// outscale/docker-machine-driver-outscale v0.2.0, pkg/drivers/outscale.
var _ = add(Cloud{
	Driver: "outscale", ID: "VmId", UserData: UserData{Habit: None},
	// Tags come after the server runs.
	Tags: TagFlag{Flag: "outscale-extra-tags-instances", Form: List, Characters: " +-._:/@", MaxKey: 255, MaxValue: 255},
	NodeDriver: &NodeDriver{Description: "3DS Outscale.", Hosts: []string{"oos.eu-west-2.outscale.com"},
		Public: []string{"accessKey", "region"}, Private: []string{"secretKey"},
		Plugin: Plugin{URL: "https://github.com/outscale/docker-machine-driver-outscale/releases/download/v0.2.0/docker-machine-driver-outscale_0.2.0_linux_amd64.zip",
			Checksums: map[string]string{"amd64": "bb539ed4e2b0f1a1083b29cbdbab59bde3efed0a3145fefc0b2f47026c48bfe0"}}},
	Beside: "its public IP address, security group and SSH key pair",
	// The SDK prints "<HTTP status> - '<code> <type>' - '<details>'"; the codes for quota and
	// capacity are not in its source.
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"401 unauthorized", "403 forbidden", "accessdenied", "authfailure"}},
		{rkev1.ClassThrottled, []string{"429 too many", "throttl"}},
		{rkev1.ClassInvalid, []string{"400 bad request", "404 not found", "409 conflict"}},
	}},
})
