package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// opentelekomcloud/docker-machine-opentelekomcloud v0.3.0, driver; errors:
// opentelekomcloud/gophertelekomcloud, errors.go. Releases 0.3.1 to 0.3.3 were not read.
var _ = add(Cloud{
	Driver: "otc", ID: "instance_id", ProviderID: "openstack:///{instance_id}",
	// Huawei Cloud, ECS API, tags: 10 tags, a key of 36 and a value of 43 characters; a dot parts
	// them in the driver's flag.
	Tags: TagFlag{Flag: "otc-tags", Form: Words, Joint: ".", Characters: "_-", MaxKey: 80},
	// v0.3.0 never reads the file that otc-user-data-file names. Huawei's limit is 32 KB before
	// encoding.
	UserData:  UserData{Habit: Inline, Flag: "otc-user-data-raw", Excludes: []string{"otc-user-data-file"}, Limit: Limit{Bytes: 32 << 10}},
	KeyUnless: []string{"otc-keypair-name", "otc-private-key-file"},
	NodeDriver: &NodeDriver{Description: "Open Telekom Cloud.", Hosts: []string{"*.otc.t-systems.com"},
		Public: []string{"accessKey", "username"}, Private: []string{"secretKey", "password", "token"},
		Optional: []string{"accessKey", "username", "secretKey", "password", "token"}, Files: map[string]string{"privateKeyFile": "privateKeyFile"},
		Plugin: Plugin{URL: "https://otc-rancher.obs.eu-de.otc.t-systems.com/node/driver/0.3.3/docker-machine-driver-otc_0.3.3_linux_amd64.tar.gz",
			Checksums: map[string]string{"amd64": "2151670a96e3ee71aedcfb5a1b73804a4772c3f9ca7f714f2a572d3868a648d1"}}},
	Beside: "its SSH key pair, elastic IP address, and the subnet, security group and VPC made for it",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"authentication failed", "action forbidden"}},
		{rkev1.ClassThrottled, []string{"too many requests"}},
		{rkev1.ClassInvalid, []string{"bad request with", "resource not found"}},
	}, afterRequest: []string{"failed to wait for ecs creation", "fail to get job entity", "unexpected conversion error"}},
})
