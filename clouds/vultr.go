package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// vultr/docker-machine-driver-vultr v2.3.0, machine/driver; vultr/govultr, govultr.go, whose errors
// are the bodies of the answers, {"error":"<text>","status":<HTTP status>}.
var _ = add(Cloud{
	Driver: "vultr", CloudInit: "vultr", ZoneFlag: "vultr-region", ID: "InstanceID", ProviderID: "vultr://{InstanceID}", KeyInPlace: true,
	// Vultr documents no limits of its tags.
	Tags: TagFlag{Flag: "vultr-tags", Form: WordList, Characters: ":_-", MaxKey: 255},
	// With the switch the driver would read a file and keep only hostname, runcmd and parts of
	// write_files.
	UserData: UserData{Habit: Base64, Flag: "vultr-cloud-init-user-data", With: map[string]string{"vultr-cloud-init-from-file": "false"}},
	Finder:   Finder{Kind: ByTag, Needs: []string{"vultr-api-key", "vultr-tags"}}, Lists: true,
	Beside:    "the firewall rule made for it",
	Leftovers: "The driver leaves the SSH key, called like the machine, in the account; Drover removes it after the server.",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"invalid api token", "unauthorized ip address"}},
		{rkev1.ClassQuota, []string{"maximum number of active virtual machines", "maximum monthly fee limit"}},
		{rkev1.ClassCapacity, []string{"not available in region", "is not available in the selected", "unavailable in the selected"}},
		{rkev1.ClassThrottled, []string{"rate limit"}},
		{rkev1.ClassInvalid, []string{"vultr-api-key cannot be empty"}},
	}, elsewhere: []string{"firewall", "ssh key", "plan", "region", "snapshot", "script"}},
})
