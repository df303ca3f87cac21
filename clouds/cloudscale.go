package clouds

var _ = add(Cloud{
	Driver: "cloudscale",
	NodeDriver: &NodeDriver{Description: "cloudscale.ch.", Hosts: []string{"objects.rma.cloudscale.ch"},
		Plugin: Plugin{URL: "https://github.com/cloudscale-ch/docker-machine-driver-cloudscale/releases/download/v1.2.0/docker-machine-driver-cloudscale_v1.2.0_linux_amd64.tar.gz",
			Checksums: map[string]string{"amd64": "e33fbd6c2f87b1c470bcb653cc8aa50baf914a9d641a2f18f86a07c398cfb544"}}},
})
