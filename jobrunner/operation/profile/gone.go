package profile

import (
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// gonePhrases are how drivers say that a server does not exist.
func gonePhrases(driver string) []string {
	phrases := []string{"not found", "notfound", "not_found", "does not exist", "doesn't exist", "no longer exists", "could not be found",
		"no such instance"}
	switch driver {
	case "vmwarevsphere":
		phrases = append(phrases, "has already been deleted or has not been completely created")
	case "vmwarevcloudair":
		phrases = append(phrases, "can't find vapp")
	case "softlayer":
		phrases = append(phrases, "unable to find object with id")
	}
	return phrases
}

// elsewhere are words for something else that is missing: then it is not known whether the server exists.
func elsewhere(driver string) []string {
	phrases := []string{"executable file not found", "command not found", "credentials", "host not found", "profile not found"}
	switch driver {
	case "vmwarevsphere":
		// The driver looks for its server below all of these.
		phrases = append(phrases, "datacenter '", "datastore '", "network '", "folder '", "resource pool '", "host '", "cluster '", "library")
	case "vmwarevcloudair":
		phrases = append(phrases, "retreiving vdc", "refreshing vdc", "service list", "compute")
	case "amazonec2":
		phrases = append(phrases, "invalidvpc", "invalidsubnet", "invalidgroup", "invalidkeypair", "not found on region", "security group")
	}
	return phrases
}

// IsGone tells whether a driver's error says that the server does not exist. To take a server for gone that is there would
// lose it, so that a text which may mean something else, such as a subscription or a data centre, does not count.
func IsGone(driver, text string) bool {
	if isPanic(text) || Classify(driver, text) == rkev1.ClassUnauthorized {
		return false
	}
	text = plain(text)
	if containsAny(text, elsewhere(driver)) {
		return false
	}
	if driver == "google" && strings.Contains(text, "the resource '") {
		return strings.Contains(text, "/instances/") && containsAny(text, gonePhrases(driver))
	}
	if containsAny(text, gonePhrases(driver)) {
		return true
	}
	found := statusPattern.FindStringSubmatch(text)
	return found != nil && (found[1] == "404" || found[1] == "410")
}

// NameTaken tells whether the cloud refused to make a server, for there is one of that name: it is somebody else's.
func NameTaken(driver, text string) bool {
	if driver != "vmwarevsphere" {
		return false
	}
	// The fault DuplicateName of the vSphere API, by its name or in vCenter's words.
	text = plain(text)
	return strings.Contains(text, "duplicatename") || strings.Contains(text, "the name '") && strings.Contains(text, "already exists")
}

// afterRequest are words of what a driver does between the cloud's consent and the moment its record names the server.
func afterRequest(driver string) []string {
	switch driver {
	case "amazonec2":
		return []string{"error fulfilling spot request", "error describing previously made spot", "error resolving spot instance"}
	case "exoscale":
		return []string{"operation: ", "getinstance: "}
	case "vmwarevcloudair":
		return []string{"task", "customiz", "vapp before", "powering on", "edge gateway", "reconfigur", "session delete", "vapp doesn't", "decoding vapp",
			"refreshing vapp"}
	}
	return nil
}

// NothingMade tells whether an error of this class means that the cloud refused to make anything. The text tells whether
// it had agreed already.
func NothingMade(driver, class, text string) bool {
	if containsAny(plain(text), afterRequest(driver)) {
		return false
	}
	switch class {
	case rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled:
		return true
	}
	return false
}
