package clouds

var _ = add(Cloud{
	Driver: "outscale",
	NodeDriver: &NodeDriver{Description: "3DS Outscale.", Hosts: []string{"oos.eu-west-2.outscale.com"},
		Public: []string{"accessKey", "region"}, Private: []string{"secretKey"},
		Plugin: Plugin{URL: "https://github.com/outscale/docker-machine-driver-outscale/releases/download/v0.2.0/docker-machine-driver-outscale_0.2.0_linux_amd64.zip",
			Checksums: map[string]string{"amd64": "bb539ed4e2b0f1a1083b29cbdbab59bde3efed0a3145fefc0b2f47026c48bfe0"}}},
})
