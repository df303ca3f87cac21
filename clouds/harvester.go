package clouds

var _ = add(Cloud{
	Driver: "harvester",
	NodeDriver: &NodeDriver{Description: "SUSE Virtualization (Harvester).", Hosts: []string{"github.com"},
		Public: []string{"clusterType", "clusterId"}, Private: []string{"kubeconfigContent"}, Optional: []string{"clusterId"},
		Defaults: map[string]string{"clusterType": "imported"},
		Plugin: Plugin{URL: "https://github.com/harvester/docker-machine-driver-harvester/releases/download/v1.0.3/docker-machine-driver-harvester-{arch}.tar.gz",
			Checksums: map[string]string{"amd64": "cd380ba3f33f104523420d973c4dd724a0973bceec0b303f348ca03d446af506", "arm64": "e9f853eeedcec687f618286f8ff45ba694cdc71ece9cf11600de931afa204779"}}},
})
