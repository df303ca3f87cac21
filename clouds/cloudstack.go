package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// andrestc/docker-machine-driver-cloudstack v0.9.3, cloudstack.go; errors: xanzy/go-cloudstack
// v2.8.0, cloudstack/cloudstack.go and VirtualMachineService.go, with the codes of
// apache/cloudstack, ApiErrorCode.java. The credential is cloudstack-api-key and
// cloudstack-secret-key. Provider ID: apache/cloudstack-kubernetes-provider, cloudstack.go and
// cloudstack_instances.go. SSH key: docker/machine, libmachine/ssh/keys.go; CloudStack takes
// ed25519 (SSHKeysHelper.java).
var _ = add(Cloud{
	Driver: "cloudstack", ZoneFlag: "cloudstack-zone", ID: "Id", ProviderID: "external-cloudstack:///{Id}", Zone: "{Zone}",
	Private: []string{"PrivateIP"}, KeyInPlace: true,
	// apache/cloudstack, NetUtils.java, verifyDomainNameLabel.
	Names: NameRule{Longest: maxName, LetterFirst: true},
	// The driver parts a tag at its first colon; key and value have 255 characters each
	// (apache/cloudstack, table resource_tags).
	Tags: TagFlag{Flag: "cloudstack-resource-tag", Form: WordList, Characters: "_-./", MaxKey: 255},
	// For a file, the record would contain its content in base64. UserDataManagerImpl.java: the
	// base64 is shorter than 32 KiB, unless the operator allows more.
	UserData: UserData{Habit: Base64, Flag: "cloudstack-userdata-base64", Excludes: []string{"cloudstack-userdata-file"},
		Limit: Limit{Bytes: 32<<10 - 1, Base64: true}},
	Beside:    "its SSH key pair, firewall rules and security group, and the public IP address taken for it",
	Leftovers: "The driver leaves data volumes unless cloudstack-delete-volumes is set, and without cloudstack-expunge CloudStack keeps a destroyed server for a while.",
	// The SDK prints "CloudStack API error <code> (CSExceptionErrorCode: …): <text>", and for a job
	// 'Undefined error: {"errorcode":<code>,…}'.
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"api error 531", `"errorcode":531`}},
		{rkev1.ClassQuota, []string{"api error 532", `"errorcode":532`, "api error 535", `"errorcode":535`, "maximum amount of resources"}},
		{rkev1.ClassCapacity, []string{"api error 533", `"errorcode":533`, "unable to create a deployment"}},
		{rkev1.ClassTransient, []string{`"errorcode":530`, `"errorcode":534`, `"errorcode":536`}},
		{rkev1.ClassInvalid, []string{"api error 537", `"errorcode":43`, `"errorcode":537`, "no match found for", "more then one result",
			"ssh key pair (", "instance (", "out of bound", "invalid resource tags format"}},
	}, gone: []string{"no match found for"}, elsewhere: []string{"unable to get ", "invalid project", "invalid domain", "key pair"},
		// A removal sends several commands, and the same words mean that any of their objects is
		// missing.
		resource: "unable to execute api command", server: "destroyvirtualmachine due to invalid value. invalid parameter id ",
		// The job is polled with separate requests, which can be rejected, too.
		afterRequest: []string{"undefined error:", "waiting for async job", "unable to create a deployment", "api error 401", "api error 429", "api error 531"}},
})
