package clouds

var _ = add(Cloud{
	Driver: "otc",
	NodeDriver: &NodeDriver{Description: "Open Telekom Cloud.", Hosts: []string{"*.otc.t-systems.com"},
		Public: []string{"accessKey", "username"}, Private: []string{"secretKey", "password", "token"},
		Optional: []string{"accessKey", "username", "secretKey", "password", "token"}, Files: map[string]string{"privateKeyFile": "privateKeyFile"},
		Plugin: Plugin{URL: "https://otc-rancher.obs.eu-de.otc.t-systems.com/node/driver/0.3.3/docker-machine-driver-otc_0.3.3_linux_amd64.tar.gz",
			Checksums: map[string]string{"amd64": "2151670a96e3ee71aedcfb5a1b73804a4772c3f9ca7f714f2a572d3868a648d1"}}},
})
