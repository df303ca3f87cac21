package profile

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// rulesOf are the words of one driver and of its cloud's API. The first rule that fits decides: what is more exact, or worse to
// overlook, stands further up.
func rulesOf(driver string) []rule {
	switch driver {
	case "digitalocean":
		return digitalOceanRules()
	case "amazonec2":
		return amazonRules()
	case "azure":
		return azureRules()
	case "google":
		return googleRules()
	case "openstack", "rackspace":
		return openstackRules()
	case "vmwarevsphere":
		return vsphereRules()
	}
	return smallerRules(driver)
}

func digitalOceanRules() []rule {
	return []rule{
		{rkev1.ClassUnauthorized, []string{"unable to authenticate you", "access-token option", "you are not authorized", "do not have access",
			"missing the required permission"}},
		{rkev1.ClassQuota, []string{"exceed your droplet limit", "droplet limit", "reached the limit"}},
		{rkev1.ClassCapacity, []string{"size is not available in this region", "currently unavailable", "region is not available",
			"currently restricted"}},
		{rkev1.ClassTransient, []string{"pending event"}},
		{rkev1.ClassInvalid, []string{"digitalocean requires a valid region", "invalid image", "invalid size", "you specified an invalid",
			"ssh key with fingerprint", "ssh-key-fingerprint needs", "name has invalid characters", "is already in use on your account",
			"user data"}},
	}
}

// amazonRules are of the error codes of Amazon EC2, as its SDK prints them before the message.
func amazonRules() []rule {
	return []rule{
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
	}
}

// azureRules are of the error codes of Azure Resource Manager.
func azureRules() []rule {
	return []rule{
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
	}
}

// googleRules are of the reasons of Google's APIs and of the codes of Compute Engine's operations. Its limits per minute are
// called quotas too.
func googleRules() []rule {
	return []rule{
		{rkev1.ClassUnauthorized, []string{"invalid_grant", "unauthorized_client", "permission denied", "does not have permission",
			"could not find default credentials", "accessnotconfigured", "insufficientpermissions", "insufficient authentication scopes",
			"invalid authentication credentials", "' permission for '", "parse provided credentials", "requires billing", "permission_denied"}},
		{rkev1.ClassThrottled, []string{"ratelimitexceeded", "rate limit exceeded", "rate_limit_exceeded", "per minute", "per 100 seconds",
			"rate_exceeded"}},
		{rkev1.ClassQuota, []string{"quota_exceeded", "quotaexceeded", "quota exceeded", "quota '", "limit_exceeded"}},
		{rkev1.ClassCapacity, []string{"resource_pool_exhausted", "does not have enough resources", "stockout", "resource_availability",
			"ip_space_exhausted"}},
		{rkev1.ClassTransient, []string{"resourcenotready", "resource_not_ready", "is not ready", "backenderror", "internal_error",
			"resourceinusebyanotherresource", "resource_in_use"}},
		{rkev1.ClassInvalid, []string{"invalid value for field", "does not exist in zone", "was not found", "invalid_argument", "invalid_usage",
			"no google cloud project name", "already exists in zone", "unable to find instance", "cannot read userdata file",
			"flag must be provided", "unsupported_operation", "condition_not_met", "resource_not_found"}},
		{rkev1.ClassUnauthorized, []string{"forbidden"}},
	}
}

// openstackRules are of what Nova, Neutron, Cinder and Keystone answer, and of the words of both Gophercloud releases.
func openstackRules() []rule {
	return []rule{
		{rkev1.ClassUnauthorized, []string{"authentication failed", "unauthorized", "you must provide exactly one of", "policy doesn't allow",
			"provide a username", "disallowed by policy", "re-authenticate"}},
		{rkev1.ClassQuota, []string{"quota exceeded", "quota", "volumelimitexceeded", "volumesizeexceeds"}},
		{rkev1.ClassThrottled, []string{"rate-limited", "rate limited", "overlimit", "over limit", "too many requests"}},
		{rkev1.ClassCapacity, []string{"no valid host was found", "no more ip addresses", "not enough", "no more floating ips", "no ips available",
			"no valid backend", "exceeded maximum number of retries"}},
		{rkev1.ClassTransient, []string{"the service is currently unable to handle", "is in error state", "server timed out waiting",
			"cannot '"}},
		{rkev1.ClassInvalid, []string{"no endpoint was found", "no suitable endpoint", "unable to find", "invalid key_name", "badrequest",
			"bad request with", "missing input for argument", "invalid input provided", "must be specified using the cli option",
			"missing one of the following environment", "missing environment variable", "ill-formed ca certificate", "resource not found",
			"endpoint type must be", "multiple matching endpoints", "invalid endpoint type", "method not allowed"}},
		{rkev1.ClassUnauthorized, []string{"forbidden"}},
	}
}

// vsphereRules are of vCenter's English messages and of the names of its faults, which stand for a message that it left out.
func vsphereRules() []rule {
	return []rule{
		{rkev1.ClassInvalid, []string{"timeout can not be negative"}},
		{rkev1.ClassUnauthorized, []string{"incorrect user name or password", "cannot complete login", "permission to perform this operation was denied",
			"nopermission", "insufficient privilege", "insufficient permission", "session is not authenticated", "notauthenticated", "invalidlogin", "login failure"}},
		{rkev1.ClassQuota, []string{"not enough licenses", "notenoughlicenses"}},
		{rkev1.ClassCapacity, []string{"insufficient", "no space left", "not enough space", "cannot allocate", "no datastore-cluster recommendations",
			"no host is compatible"}},
		{rkev1.ClassTransient, []string{"another task is already in progress", "taskinprogress", "not allowed in the current ", "invalidstate",
			"resourceinuse", "' is in use.",
			"invalidpowerstate", "cannot communicate with the host", "hostnotconnected", "hostcommunication", "failed to lock the file", "filelocked",
			"no ip despite waiting", "concurrentaccess", "object has already been deleted"}},
		{rkev1.ClassInvalid, []string{"invalid configuration", "' not found", "duplicate name", "duplicatename", "the name '", "resolves to multiple",
			"no default ", "specified parameter was not correct", "invalidargument", "needs a vm name to clone from", "content library",
			"license or esxi version prohibits", "restrictedversion", "invalid datastore path", "invaliddatastore", "not supported", "is not a template",
			"invalidname", "no datastores for this vm", "unsupported machineos", "more than one result", "createcloudinitiso: path lookup",
			"notsupported", "invalid"}},
	}
}

// smallerRules are of drivers with few words of their own.
func smallerRules(driver string) []rule {
	switch driver {
	case "exoscale":
		return []rule{
			{rkev1.ClassInvalid, []string{"missing an api key", "missing an api secret", "unable to find image", "response: bad request",
				"response: not found", "response: unprocessable"}},
			{rkev1.ClassUnauthorized, []string{"response: unauthorized"}},
			{rkev1.ClassQuota, []string{"limit reached", "limits reached", "resource limit", "payment required"}},
			{rkev1.ClassThrottled, []string{"too many requests"}},
			{rkev1.ClassCapacity, []string{"insufficient capacity", "not enough capacity", "insufficient storage"}},
			{rkev1.ClassTransient, []string{"response: conflict", "response: locked", "response: too early", "gateway timeout"}},
		}
	case "pod":
		return []rule{
			{rkev1.ClassQuota, []string{"exceeded quota"}},
			{rkev1.ClassUnauthorized, []string{"unauthorized", "cannot create resource", "cannot get resource", "cannot delete resource",
				"cannot patch resource", "cannot list resource", "asked for the client to provide credentials"}},
			{rkev1.ClassTransient, []string{"currently unable to handle the request", "could not be completed at this time", "timeout", "etcdserver",
				"object has been modified", "is being terminated", "internal error occurred", "watch closed before ip"}},
			{rkev1.ClassInvalid, []string{"is invalid: ", "denied the request", " not found", "violates podsecurity", "already exists",
				"cannot read userdata file"}},
		}
	case "softlayer":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"invalid api token", "access denied"}},
			{rkev1.ClassInvalid, []string{"can not specify both", "invalid value provided for"}},
			// No more than this is left of an answer that is not the API's.
			{rkev1.ClassTransient, []string{`error in response: "`}},
		}
	case "vmwarevcloudair":
		return []rule{
			{rkev1.ClassTransient, []string{"is busy"}},
			{rkev1.ClassInvalid, []string{"can't find ", "couldn't find a ", "mandatory params"}},
		}
	}
	return externalRules(driver)
}

// externalRules are of drivers that are no part of rancher/machine, by their clouds' documentation.
func externalRules(driver string) []rule {
	switch driver {
	case "linode":
		return []rule{
			{rkev1.ClassQuota, []string{"account limit reached"}},
			{rkev1.ClassUnauthorized, []string{"oauth scope", "account has been suspended"}},
			{rkev1.ClassTransient, []string{"linode busy"}},
		}
	case "hetzner":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"(unauthorized", "(forbidden", "token_readonly"}},
			{rkev1.ClassThrottled, []string{"rate_limit_exceeded"}},
			{rkev1.ClassQuota, []string{"resource_limit_exceeded"}},
			{rkev1.ClassCapacity, []string{"resource_unavailable", "placement_error"}},
			{rkev1.ClassTransient, []string{"(locked", "resource_locked", "(conflict", "service_error", "(maintenance", "(unavailable"}},
			{rkev1.ClassInvalid, []string{"invalid_input", "json_error", "uniqueness_error", "(not_found", "(protected"}},
		}
	}
	return nil
}
