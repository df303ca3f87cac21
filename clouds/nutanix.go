package clouds

var _ = add(Cloud{
	Driver: "nutanix",
	NodeDriver: &NodeDriver{Description: "Nutanix AHV.", Hosts: []string{"nutanix.github.io"},
		Public: []string{"endpoint", "username", "port"}, Private: []string{"password"},
		Plugin: Plugin{URL: "https://github.com/nutanix/docker-machine/releases/download/v3.7.0/docker-machine-driver-nutanix",
			Checksums: map[string]string{"amd64": "2f70c4bdccd3c5e68bd8c32aadb5b525275a3cda5799f29736f37bdd168caa94"}}},
})
