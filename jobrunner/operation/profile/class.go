package profile

import (
	"regexp"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// rule gives a class to error texts that contain one of its phrases, all in small letters.
type rule struct {
	class   string
	phrases []string
}

// Classify says what kind of failure a driver's error text tells of. The driver's own rules come first, then those every
// cloud shares, then the HTTP status, then what the network says.
func Classify(driver, text string) string {
	text = strings.ToLower(text)
	for _, rules := range [][]rule{rulesOf(driver), commonRules()} {
		if class := match(rules, text); class != "" {
			return class
		}
	}
	if class := byStatus(text); class != "" {
		return class
	}
	if class := match(networkRules(), text); class != "" {
		return class
	}
	return rkev1.ClassUnknown
}

func match(rules []rule, text string) string {
	for _, r := range rules {
		for _, phrase := range r.phrases {
			if strings.Contains(text, phrase) {
				return r.class
			}
		}
	}
	return ""
}

func rulesOf(driver string) []rule {
	switch driver {
	case "digitalocean":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"unable to authenticate you", "access-token option", "you are not authorized", "do not have access"}},
			{rkev1.ClassQuota, []string{"exceed your droplet limit", "droplet limit", "reached the limit"}},
			{rkev1.ClassCapacity, []string{"size is not available in this region", "currently unavailable", "region is not available",
				"currently restricted"}},
			{rkev1.ClassInvalid, []string{"digitalocean requires a valid region", "invalid image", "invalid size", "you specified an invalid",
				"ssh key with fingerprint", "ssh-key-fingerprint needs", "name has invalid characters", "is already in use on your account",
				"user data"}},
		}
	case "amazonec2":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"authfailure", "unauthorizedoperation", "invalidclienttokenid", "signaturedoesnotmatch", "expiredtoken",
				"nocredentialproviders", "optinrequired", "pendingverification"}},
			{rkev1.ClassQuota, []string{"instancelimitexceeded", "vcpulimitexceeded", "maxspotinstancecountexceeded", "volumelimitexceeded",
				"addresslimitexceeded", "securitygrouplimitexceeded", "resourcelimitexceeded"}},
			{rkev1.ClassCapacity, []string{"insufficientinstancecapacity", "insufficienthostcapacity", "insufficientfreeaddressesinsubnet",
				"spotmaxpricetoolow", "unsupported: your requested instance type"}},
			{rkev1.ClassThrottled, []string{"requestlimitexceeded", "throttling"}},
			{rkev1.ClassInvalid, []string{"invalidparameter", "invalidami", "invalidsubnet", "invalidgroup", "invalidkeypair", "invalidvpc",
				"missingparameter", "not found on region", "invalid region", "validationerror", "invalidblockdevicemapping"}},
			{rkev1.ClassTransient, []string{"internalerror", "unavailable: ", "requestexpired"}},
		}
	case "azure":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"authorizationfailed", "invalidauthenticationtoken", "aadsts", "adal: refresh request failed",
				"authenticationfailed", "subscriptionnotfound"}},
			{rkev1.ClassQuota, []string{"quotaexceeded", "exceeding approved", "quota"}},
			{rkev1.ClassCapacity, []string{"skunotavailable", "allocationfailed", "zonalallocationfailed", "overconstrainedallocation"}},
			{rkev1.ClassThrottled, []string{"toomanyrequests", "subscriptionrequeststhrottled"}},
			{rkev1.ClassInvalid, []string{"invalidparameter", "invalidtemplate", "badrequest", "imagenotfound", "platformimagenotfound",
				"locationnotavailable", "invalidresource"}},
		}
	}
	return moreRules(driver)
}

func moreRules(driver string) []rule {
	switch driver {
	case "google":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"invalid_grant", "permission denied", "does not have permission", "could not find default credentials",
				"accessnotconfigured", "insufficientpermissions", "forbidden"}},
			{rkev1.ClassQuota, []string{"quota_exceeded", "quotaexceeded", "quota '"}},
			{rkev1.ClassCapacity, []string{"zone_resource_pool_exhausted", "resource_pool_exhausted", "does not have enough resources", "stockout"}},
			{rkev1.ClassThrottled, []string{"ratelimitexceeded", "rate limit exceeded"}},
			{rkev1.ClassInvalid, []string{"invalid value for field", "does not exist in zone", "was not found"}},
		}
	case "openstack", "rackspace":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"authentication failed", "unauthorized", "you must provide exactly one of", "policy doesn't allow"}},
			{rkev1.ClassQuota, []string{"quota exceeded", "quota"}},
			{rkev1.ClassCapacity, []string{"no valid host was found", "no more ip addresses", "not enough"}},
			{rkev1.ClassInvalid, []string{"no endpoint was found", "unable to find", "invalid key_name", "badrequest"}},
		}
	case "vmwarevsphere":
		return []rule{
			{rkev1.ClassUnauthorized, []string{"incorrect user name or password", "cannot complete login", "permission to perform this operation was denied",
				"nopermission"}},
			{rkev1.ClassCapacity, []string{"insufficient disk space", "insufficient resources", "insufficientresources", "no space left", "cannot allocate"}},
			{rkev1.ClassInvalid, []string{"invalid configuration", "datastore not found", "network not found", "folder not found", "resource pool not found",
				"' not found", "duplicate name", "the name '"}},
		}
	case "exoscale":
		return []rule{
			{rkev1.ClassInvalid, []string{"missing an api key"}},
			{rkev1.ClassCapacity, []string{"insufficient capacity"}},
		}
	}
	return nil
}

func commonRules() []rule {
	return []rule{
		{rkev1.ClassUnauthorized, []string{"unauthorized", "authentication required", "invalid credentials", "invalid api key", "invalid token",
			"access denied", "not authorized", "permission denied (publickey"}},
		{rkev1.ClassQuota, []string{"quota", "limit exceeded for resource", "maximum number of"}},
		{rkev1.ClassThrottled, []string{"rate limit", "too many requests", "throttl"}},
		{rkev1.ClassCapacity, []string{"out of stock", "sold out", "insufficient capacity", "no capacity", "out of capacity", "resource_unavailable"}},
		{rkev1.ClassInvalid, []string{" option is required", "requires the --", "requires a valid", "must be specified", "is not a valid",
			"unknown flag", "could not be found", "no such file"}},
	}
}

// statusPattern finds an HTTP status where clients write it, and no other number of three digits: "…/droplets: 422 (request",
// "Error 403:", "StatusCode=409", "status code: 429", "but got 503".
var statusPattern = regexp.MustCompile(`(?:^|: |error |got |status(?: code)?[ =:]+|statuscode[ =:]+|http(?:/[0-9.]+)? )([45][0-9]{2})(?:[^0-9]|$)`)

func byStatus(text string) string {
	found := statusPattern.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	switch code := found[1]; {
	case code == "401" || code == "403":
		return rkev1.ClassUnauthorized
	case code == "402":
		return rkev1.ClassQuota
	case code == "429":
		return rkev1.ClassThrottled
	case code == "408" || code == "409" || code == "423" || code == "425" || code[0] == '5':
		return rkev1.ClassTransient
	}
	return rkev1.ClassInvalid
}

func networkRules() []rule {
	return []rule{
		{rkev1.ClassInvalid, []string{"certificate signed by unknown authority", "certificate is valid for", "certificate has expired"}},
		{rkev1.ClassTransient, []string{"timeout", "timed out", "deadline exceeded", "connection refused", "connection reset", "no such host", "eof",
			"broken pipe", "network is unreachable", "no route to host", "temporary failure", "tls handshake", "server misbehaving",
			"service unavailable", "internal server error", "bad gateway", "proxyconnect", "dial tcp"}},
	}
}

// gonePhrases are how drivers say that a server does not exist.
var gonePhrases = []string{"not found", "notfound", "does not exist", "doesn't exist", "no longer exists", "could not be found", "no such instance",
	"resource_not_found"}

// IsGone tells whether a driver's error says that the server does not exist. What the error is about is for the caller to
// make sure of.
func IsGone(text string) bool {
	text = strings.ToLower(text)
	if match([]rule{{"gone", gonePhrases}}, text) != "" {
		return true
	}
	found := statusPattern.FindStringSubmatch(text)
	return found != nil && (found[1] == "404" || found[1] == "410")
}

// NothingMade tells whether an error of this class means that the cloud refused to make anything.
func NothingMade(class string) bool {
	switch class {
	case rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled:
		return true
	}
	return false
}
