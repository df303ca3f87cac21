package clouds

var _ = add(Cloud{
	Driver: "oci",
	NodeDriver: &NodeDriver{Description: "Oracle Cloud Infrastructure.", Hosts: []string{"*.oraclecloud.com"},
		Public: []string{"tenancyId", "userId", "fingerprint"}, Private: []string{"privateKeyContents"}, Passwords: []string{"privateKeyPassphrase"},
		Plugin: Plugin{URL: "https://github.com/rancher-plugins/rancher-machine-driver-oci/releases/download/v1.3.0/docker-machine-driver-oci-linux",
			Checksums: map[string]string{"amd64": "0a1afa6a0af85ecf3d77cc554960e36e1be5fd12b22b0155717b9289669e4021"}}},
})
