package driver

import (
	"github.com/drover-project/drover/crdgen"
)

const onlyAMD64 = " For amd64 only."

// externalTable lists the external drivers that Rancher knows, all inactive: nothing is downloaded before someone asks for
// it. arch is that of the servers Jobs run on, as Go names it. aliyunecs is not among them, for Rancher's own address for
// it is no longer served and no other is known with a checksum.
func externalTable(arch string) []predefined {
	return append(perArchTable(arch), []predefined{
		{name: "cloudca", description: "cloud.ca." + onlyAMD64, hosts: list("objects-east.cloud.ca"),
			url:      "https://github.com/cloud-ca/docker-machine-driver-cloudca/files/2446837/docker-machine-driver-cloudca_v2.0.0_linux-amd64.zip",
			checksum: "1757e2b807b0fea4a38eade4e961bcc609853986a44a99a4e86a37ccea1f7679"},
		{name: "cloudscale", description: "cloudscale.ch." + onlyAMD64, hosts: list("objects.rma.cloudscale.ch"),
			url:      "https://github.com/cloudscale-ch/docker-machine-driver-cloudscale/releases/download/v1.2.0/docker-machine-driver-cloudscale_v1.2.0_linux_amd64.tar.gz",
			checksum: "e33fbd6c2f87b1c470bcb653cc8aa50baf914a9d641a2f18f86a07c398cfb544"},
		{name: "nutanix", description: "Nutanix AHV." + onlyAMD64, hosts: list("nutanix.github.io"),
			url:      "https://github.com/nutanix/docker-machine/releases/download/v3.7.0/docker-machine-driver-nutanix",
			checksum: "2f70c4bdccd3c5e68bd8c32aadb5b525275a3cda5799f29736f37bdd168caa94",
			rules: crdgen.Rules{PublicCredentialFields: list("endpoint", "username", "port"),
				PrivateCredentialFields: list("password")}},
		{name: "oci", description: "Oracle Cloud Infrastructure." + onlyAMD64, hosts: list("*.oraclecloud.com"),
			url:      "https://github.com/rancher-plugins/rancher-machine-driver-oci/releases/download/v1.3.0/docker-machine-driver-oci-linux",
			checksum: "0a1afa6a0af85ecf3d77cc554960e36e1be5fd12b22b0155717b9289669e4021",
			rules: crdgen.Rules{PublicCredentialFields: list("tenancyId", "userId", "fingerprint"),
				PrivateCredentialFields: list("privateKeyContents"), PasswordFields: list("privateKeyPassphrase")}},
		{name: "otc", description: "Open Telekom Cloud." + onlyAMD64, hosts: list("*.otc.t-systems.com"),
			url:      "https://otc-rancher.obs.eu-de.otc.t-systems.com/node/driver/0.3.3/docker-machine-driver-otc_0.3.3_linux_amd64.tar.gz",
			checksum: "2151670a96e3ee71aedcfb5a1b73804a4772c3f9ca7f714f2a572d3868a648d1",
			rules: crdgen.Rules{PublicCredentialFields: list("accessKey", "username"),
				PrivateCredentialFields:  list("secretKey", "password", "token"),
				OptionalCredentialFields: list("accessKey", "username", "secretKey", "password", "token"),
				FileAliases:              aliases("privateKeyFile", "privateKeyFile")}},
		{name: "outscale", description: "3DS Outscale." + onlyAMD64, hosts: list("oos.eu-west-2.outscale.com"),
			url:      "https://github.com/outscale/docker-machine-driver-outscale/releases/download/v0.2.0/docker-machine-driver-outscale_0.2.0_linux_amd64.zip",
			checksum: "bb539ed4e2b0f1a1083b29cbdbab59bde3efed0a3145fefc0b2f47026c48bfe0",
			rules: crdgen.Rules{PublicCredentialFields: list("accessKey", "region"),
				PrivateCredentialFields: list("secretKey")}},
		{name: "packet", displayName: "metal", description: "Equinix Metal, formerly Packet; its driver is called metal." + onlyAMD64,
			hosts:    list("api.packet.net", "api.equinix.com", "rancher-drivers.equinixmetal.net"),
			url:      "https://github.com/equinix/docker-machine-driver-metal/releases/download/v0.6.0/docker-machine-driver-metal_linux-amd64.zip",
			checksum: "fad5e551a35d2ef2db742b07ca6d61bb9c9b574d322d3000f0c557d5fb90a734",
			rules:    crdgen.Rules{PrivateCredentialFields: list("apiKey"), FileAliases: aliases("userdata", "userdata")}},
		{name: "pnap", description: "phoenixNAP Bare Metal Cloud." + onlyAMD64,
			hosts:    list("api.securedservers.com", "api.phoenixnap.com", "auth.phoenixnap.com"),
			url:      "https://github.com/phoenixnap/docker-machine-driver-pnap/releases/download/v0.5.1/docker-machine-driver-pnap_0.5.1_linux_amd64.zip",
			checksum: "5847599c24c137975fd190747a15ad4db9529ae35059b60e5f8bc9a470d55229",
			rules: crdgen.Rules{PublicCredentialFields: list("clientIdentifier"),
				PrivateCredentialFields: list("clientSecret")}},
	}...)
}

// perArchTable lists the drivers that are published for arm64 as well; every other architecture gets the amd64 address and
// is told so when the binary does not run.
func perArchTable(arch string) []predefined {
	harvester, linode := "cd380ba3f33f104523420d973c4dd724a0973bceec0b303f348ca03d446af506", "26a71dbbc2f5249a66716cad586c3b4048d3cd9e67c0527442c374dd5dcf1c41"
	if arch == "arm64" {
		harvester, linode = "e9f853eeedcec687f618286f8ff45ba694cdc71ece9cf11600de931afa204779", "3b1ed74291cbf581c0f8a63d878d79e1fe3b443387c1c0bb8b1d078a78db8bc4"
	} else {
		arch = "amd64"
	}
	return []predefined{
		{name: "harvester", description: "SUSE Virtualization (Harvester).", hosts: list("github.com"), checksum: harvester,
			url: "https://github.com/harvester/docker-machine-driver-harvester/releases/download/v1.0.3/docker-machine-driver-harvester-" + arch + ".tar.gz",
			rules: crdgen.Rules{PublicCredentialFields: list("clusterType", "clusterId"), PrivateCredentialFields: list("kubeconfigContent"),
				OptionalCredentialFields: list("clusterId"), Defaults: []crdgen.FieldDefault{{Field: "clusterType", Value: "imported"}}}},
		{name: "linode", description: "Akamai (Linode).", hosts: list("api.linode.com"), checksum: linode,
			url:   "https://github.com/linode/docker-machine-driver-linode/releases/download/v0.1.15/docker-machine-driver-linode_linux-" + arch + ".zip",
			rules: crdgen.Rules{PrivateCredentialFields: list("token"), PasswordFields: list("rootPass")}},
	}
}
