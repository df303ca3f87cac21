package clouds

var _ = add(Cloud{
	Driver: "pnap",
	NodeDriver: &NodeDriver{Description: "phoenixNAP Bare Metal Cloud.", Hosts: []string{"api.securedservers.com", "api.phoenixnap.com", "auth.phoenixnap.com"},
		Public: []string{"clientIdentifier"}, Private: []string{"clientSecret"},
		Plugin: Plugin{URL: "https://github.com/phoenixnap/docker-machine-driver-pnap/releases/download/v0.5.1/docker-machine-driver-pnap_0.5.1_linux_amd64.zip",
			Checksums: map[string]string{"amd64": "5847599c24c137975fd190747a15ad4db9529ae35059b60e5f8bc9a470d55229"}}},
})
