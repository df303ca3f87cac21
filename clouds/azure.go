package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "azure", ZoneFlag: "azure-availability-zone", ByName: true, Zone: "{AvailabilityZone}", Private: []string{"PrivateIPAddr"},
	ProviderID: "azure:///subscriptions/{SubscriptionID}/resourceGroups/{resourceGroup}/providers/Microsoft.Compute/virtualMachines/{MachineName}",
	Place: map[string]string{
		"Environment": "azure-environment", "SubscriptionID": "azure-subscription-id", "ResourceGroup": "azure-resource-group"},
	// The driver names a storage container like the server with vhd- before it.
	Names: NameRule{Longest: maxName - len("vhd-")},
	// Azure Resource Manager, "Tag resources": names of 512 characters without <>%&\?/, values of
	// 256.
	Tags: TagFlag{Flag: "azure-tags", Form: Pairs, Characters: " +-=._:@", MaxKey: 512, MaxValue: 256},
	// Azure REST API, Virtual Machines, OSProfile.customData: "The maximum length of the binary
	// array is 65535 bytes", base64.
	UserData: UserData{Habit: PathAtCreate, Flag: "azure-custom-data", Limit: Limit{Bytes: 65535, Gzip: true}},
	Finder:   Finder{Kind: ByTag, Needs: []string{"azure-resource-group", "azure-subscription-id", "azure-tags"}}, Lists: true,
	NodeDriver: &NodeDriver{Description: "Microsoft Azure.", Active: true, AddCredential: true,
		Public: []string{"clientId", "subscriptionId", "tenantId", "environment"}, Private: []string{"clientSecret"},
		Optional: []string{"tenantId"}, Files: map[string]string{"customData": "customData"}},
	Beside:    "its network interface, public IP address and disk; where no other server uses them, also the network security group, availability set, subnet and virtual network",
	Leftovers: "The driver leaves the resource group and the storage account.",
	// Error codes of Azure Resource Manager.
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"authorizationfailed", "invalidauthenticationtoken", "aadsts", "adal: refresh request failed",
			"authenticationfailed", "subscriptionnotfound", "readonlydisabledsubscription", "expiredauthenticationtoken",
			"failed to authenticate using client credentials", "does not have adequate role-based access"}},
		{rkev1.ClassThrottled, []string{"toomanyrequests", "requeststhrottled", "throttled"}},
		{rkev1.ClassQuota, []string{"quotaexceeded", "exceeding approved", "limitreached", "limitexceeded", "quota limit", "cores quota"}},
		{rkev1.ClassCapacity, []string{"skunotavailable", "allocationfailed", "overconstrained", "notavailableforsubscription", "subnetisfull",
			"subnetwithnofreeip"}},
		{rkev1.ClassInvalid, []string{"invalidparameter", "invalidtemplate", "badrequest", "imagenotfound", "locationnotavailable", "invalidresource",
			"resourcegroupnotfound", "requestdisallowedbypolicy", "missingsubscriptionregistration", "purchasevalidationfailed",
			"purchaseeligibilityfailed", "scopelocked", "propertychangenotallowed", "image provided must be", "plan provided must be",
			"invalid azure environment", "already exists in resource group",
			"conflictinguserinput", "reservedresourcename", "dnsrecordinuse", "can only be assigned to a single availability zone",
			"managed disks must be used", "public ip sku must be enabled", "managed availability set", "outside of provided resource group",
			"cannot parse security rule", "invalid protocol", "unable to parse resource id", "not set up for azure environment"}},
		{rkev1.ClassTransient, []string{`code="conflict"`, "anotheroperationinprogress", "retryableerror", "internalexecutionerror", "internalservererror",
			"internaloperationerror", "timedout", "operationpreempted", "servertimeout", "gatewaytimeout", "serviceunavailable",
			"resourcegroupbeingdeleted", "nicreservedforanothervm", "networkinterfaceinuse", "inusesubnetcannotbedeleted"}},
		// The library leaves the HTTP status out, so that the code must do.
		{rkev1.ClassInvalid, []string{`code="invalid`, `notfound"`, `notsupported"`, `notallowed"`, `notregistered"`}},
	}},
})
