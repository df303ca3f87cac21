package clouds

import (
	"maps"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

var _ = add(Cloud{
	Driver: "amazonec2", ZoneFlag: "amazonec2-zone", ZonePrefix: "amazonec2-region", CloudInit: "aws", EnvPrefix: "AWS",
	ID: "InstanceId", ProviderID: "aws:///{Zone}/{InstanceId}", Zone: "{Zone}", Private: []string{"PrivateIPAddress"},
	Place: map[string]string{"Region": "amazonec2-region"}, normal: wholeZone,
	// AWS, "Tag your EC2 resources": key 128, value 256 characters; a comma would end the flag's
	// item. cloud-provider-aws, docs/prerequisites.md: instances of a cluster carry
	// kubernetes.io/cluster/<name>.
	Tags:    TagFlag{Flag: "amazonec2-tags", Form: Pairs, Characters: " +-=._:/@", MaxKey: 128, MaxValue: 256, Owned: "kubernetes.io/cluster/"},
	KeyFile: "amazonec2-ssh-keypath", KeyUnless: []string{"amazonec2-keypair-name"},
	// AWS, "Run commands when you launch an EC2 instance with user data input": 16 KB, raw, before
	// base64.
	UserData: UserData{Habit: PathAtCreate, Flag: "amazonec2-userdata", Limit: Limit{Bytes: 16 << 10, Gzip: true}},
	// The driver tags a spot instance only after it runs.
	Finder: Finder{Kind: ByTag, Needs: []string{"amazonec2-region", "amazonec2-tags"}, Unless: []string{"amazonec2-request-spot-instance"}},
	Lists:  true,
	NodeDriver: &NodeDriver{Description: "Amazon EC2.", Active: true, AddCredential: true,
		Hosts: []string{"iam.amazonaws.com", "iam.us-gov.amazonaws.com", "iam.%.amazonaws.com.cn", "iam.global.api.aws",
			"ec2.%.amazonaws.com", "ec2.%.amazonaws.com.cn", "ec2.%.api.aws", "eks.%.amazonaws.com", "eks.%.amazonaws.com.cn",
			"eks.%.api.aws", "kms.%.amazonaws.com", "kms.%.amazonaws.com.cn", "kms.%.api.aws"},
		Public: []string{"accessKey"}, Private: []string{"secretKey"}, Passwords: []string{"sessionToken"},
		Files: map[string]string{"sshKeyContents": "sshKeypath", "userdata": "userdata"}},
	Beside:    "its SSH key pair",
	Leftovers: "The driver leaves its security groups, rancher-nodes unless amazonec2-security-group names others: machines share them.",
	words: words{
		// Error codes of Amazon EC2, as its SDK prints them before the message.
		rules: []rule{
			{rkev1.ClassUnauthorized, []string{"authfailure", "unauthorizedoperation", "invalidclienttokenid", "signaturedoesnotmatch", "expiredtoken",
				"nocredentialproviders", "optinrequired", "pendingverification", "accessdenied", "unrecognizedclient", "incompletesignature",
				"missingauthenticationtoken", "emptystaticcreds", "requires aws credentials", "blocked: "}},
			{rkev1.ClassQuota, []string{"instancelimitexceeded", "vcpulimitexceeded", "maxspotinstancecountexceeded", "volumelimitexceeded",
				"addresslimitexceeded", "securitygrouplimitexceeded", "resourcelimitexceeded", "networkinterfacelimitexceeded",
				"maxiopslimitexceeded", "vpclimitexceeded", "rulespersecuritygrouplimitexceeded", "securitygroupsperinterfacelimitexceeded",
				"keypairlimitexceeded", "privateipaddresslimitexceeded"}},
			{rkev1.ClassCapacity, []string{"insufficientinstancecapacity", "insufficienthostcapacity", "insufficientfreeaddressesinsubnet",
				"insufficientreservedinstancecapacity", "insufficientcapacity", "insufficientaddresscapacity", "insufficientvolumecapacity",
				"reservationcapacityexceeded", "unfulfillablecapacity", "spotmaxpricetoolow", "unsupported: your requested instance type"}},
			{rkev1.ClassThrottled, []string{"requestlimitexceeded", "throttl"}},
			{rkev1.ClassInvalid, []string{"invalidparameter", "invalidami", "invalidsubnet", "invalidgroup", "invalidkeypair", "invalidvpc",
				"missingparameter", "not found on region", "invalid region", "validationerror", "invalidblockdevicemapping", "unsupported: ",
				"unsupportedoperation", "vpcidnotspecified", "idempotentparametermismatch", "missingregion", "unable to find a subnet",
				"requires either the --amazonec2", "no default-vpc attribute", "the desired subnet could not be located",
				"does not belong to vpcid", " must be either ", "ipv6addresscount must be", "also requires --amazonec2", "unable to read --amazonec2"}},
			{rkev1.ClassTransient, []string{"internalerror", "internalfailure", "unavailable: ", "requestexpired", "incorrectstate",
				"incorrectinstancestate", "dependencyviolation"}},
		},
		elsewhere:    []string{"invalidvpc", "invalidsubnet", "invalidgroup", "invalidkeypair", "not found on region", "security group"},
		afterRequest: []string{"error fulfilling spot request", "error describing previously made spot", "error resolving spot instance"},
	},
})

// wholeZone completes the zone: the driver keeps only its last letter.
func wholeZone(record Record) Record {
	region, zone := record.Text("Region"), record.Text("Zone")
	if zone == "" || record.Text("Endpoint") != "" || strings.HasPrefix(zone, region) {
		return record
	}
	out := maps.Clone(record)
	out["Zone"] = region + zone
	return out
}
