package driver

import (
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

// predefined is one line of the table of drivers that Drover brings along.
type predefined struct {
	name, displayName string
	active, addCred   bool
	description       string
	url, checksum     string
	hosts             []string
	rules             crdgen.Rules
}

const notInAPod = "Works only on a desktop with the hypervisor installed, not in the pod of a Job."

// Predefined returns the NodeDrivers that exist from the start: every built-in driver, and the external ones Rancher knows.
// They are to be created when absent and otherwise left to their owners. Source of names, credential fields, aliases,
// addresses and checksums: Rancher Provisioning V2, pkg/data/management/machinedriver_data.go. Where a rule adds to
// Rancher's, it only hides a further secret or lets a further key be missing.
func Predefined() []v3.NodeDriver {
	var out []v3.NodeDriver
	for _, line := range append(builtinTable(), externalTable(runtime.GOARCH)...) {
		out = append(out, line.nodeDriver())
	}
	return out
}

func (p predefined) nodeDriver() v3.NodeDriver {
	displayName := p.displayName
	if displayName == "" {
		displayName = p.name
	}
	url := p.url
	if url == "" {
		url = v3.BuiltinURLPrefix
	}
	return v3.NodeDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: v3.GroupVersion.String(), Kind: "NodeDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Annotations: p.rules.Annotations()},
		Spec: v3.NodeDriverSpec{
			DisplayName: displayName, Description: p.description, URL: url, Checksum: p.checksum, Builtin: p.url == "",
			Active: p.active, AddCloudCredential: p.addCred, WhitelistDomains: p.hosts,
		},
	}
}

func aliases(pairs ...string) []crdgen.FileAlias {
	var out []crdgen.FileAlias
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, crdgen.FileAlias{Field: pairs[i], DriverField: pairs[i+1]})
	}
	return out
}

func list(names ...string) []string { return names }

func builtinTable() []predefined {
	return append(cloudTable(), []predefined{
		{name: "generic", description: "Takes over a server that runs already, over SSH.", rules: crdgen.Rules{
			PrivateCredentialFields: list("sshKey"), OptionalCredentialFields: list("sshKey"), FileAliases: aliases("sshKey", "sshKey")}},
		{name: "hyperv", description: notInAPod},
		{name: "none", description: "Makes nothing; for tests."},
		{name: "noop", description: "Makes nothing; for tests."},
		{name: "pod", description: "Makes a pod of this cluster act as a server; for tests.", rules: crdgen.Rules{
			FileAliases: aliases("userdata", "userdata")}},
		{name: "virtualbox", description: notInAPod},
		{name: "vmwarefusion", description: notInAPod},
		{name: "vmwarevcloudair", description: "VMware vCloud Air.", rules: crdgen.Rules{
			PublicCredentialFields: list("username"), PrivateCredentialFields: list("password")}},
	}...)
}

// cloudTable is one literal, a line per cloud.
func cloudTable() []predefined {
	return []predefined{
		{name: "amazonec2", description: "Amazon EC2.", active: true, addCred: true,
			hosts: list("iam.amazonaws.com", "iam.us-gov.amazonaws.com", "iam.%.amazonaws.com.cn", "iam.global.api.aws",
				"ec2.%.amazonaws.com", "ec2.%.amazonaws.com.cn", "ec2.%.api.aws", "eks.%.amazonaws.com", "eks.%.amazonaws.com.cn",
				"eks.%.api.aws", "kms.%.amazonaws.com", "kms.%.amazonaws.com.cn", "kms.%.api.aws"),
			rules: crdgen.Rules{PublicCredentialFields: list("accessKey"), PrivateCredentialFields: list("secretKey"),
				PasswordFields: list("sessionToken"), FileAliases: aliases("sshKeyContents", "sshKeypath", "userdata", "userdata")}},
		{name: "azure", description: "Microsoft Azure.", active: true, addCred: true, rules: crdgen.Rules{
			PublicCredentialFields:  list("clientId", "subscriptionId", "tenantId", "environment"),
			PrivateCredentialFields: list("clientSecret"), OptionalCredentialFields: list("tenantId"),
			FileAliases: aliases("customData", "customData")}},
		{name: "digitalocean", description: "DigitalOcean.", active: true, hosts: list("api.digitalocean.com"), rules: crdgen.Rules{
			PrivateCredentialFields: list("accessToken"), FileAliases: aliases("sshKeyContents", "sshKeyPath", "userdata", "userdata")}},
		{name: "exoscale", description: "Exoscale.", hosts: list("api.exoscale.ch"), rules: crdgen.Rules{
			PublicCredentialFields: list("apiKey"), PrivateCredentialFields: list("apiSecretKey"),
			FileAliases: aliases("sshKey", "sshKey", "userdata", "userdata")}},
		{name: "google", description: "Google Compute Engine.", addCred: true, rules: crdgen.Rules{
			PrivateCredentialFields: list("authEncodedJson"),
			FileAliases:             aliases("authEncodedJson", "authEncodedJson", "userdata", "userdata")}},
		{name: "openstack", description: "OpenStack.", rules: crdgen.Rules{
			PrivateCredentialFields:  list("password", "applicationCredentialSecret"),
			OptionalCredentialFields: list("password", "applicationCredentialSecret"),
			FileAliases:              aliases("cacert", "cacert", "privateKeyFile", "privateKeyFile", "userDataFile", "userDataFile")}},
		{name: "rackspace", description: "Rackspace.", rules: crdgen.Rules{PrivateCredentialFields: list("apiKey")}},
		{name: "softlayer", description: "IBM Cloud classic infrastructure (SoftLayer).", rules: crdgen.Rules{PrivateCredentialFields: list("apiKey")}},
		{name: "vmwarevsphere", description: "VMware vSphere.", active: true, rules: crdgen.Rules{
			PublicCredentialFields: list("username", "vcenter", "vcenterPort"), PrivateCredentialFields: list("password"),
			PasswordFields: list("sshPassword"), Defaults: []crdgen.FieldDefault{{Field: "vcenterPort", Value: "443"}},
			FileAliases: aliases("cloudConfig", "cloud-config")}},
	}
}
