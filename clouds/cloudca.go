package clouds

var _ = add(Cloud{
	Driver: "cloudca",
	NodeDriver: &NodeDriver{Description: "cloud.ca.", Hosts: []string{"objects-east.cloud.ca"},
		Plugin: Plugin{URL: "https://github.com/cloud-ca/docker-machine-driver-cloudca/files/2446837/docker-machine-driver-cloudca_v2.0.0_linux-amd64.zip",
			Checksums: map[string]string{"amd64": "1757e2b807b0fea4a38eade4e961bcc609853986a44a99a4e86a37ccea1f7679"}}},
})
