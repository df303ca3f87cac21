package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "google", ZoneFlag: "google-zone", ByName: true, ProviderID: "gce://{Project}/{Zone}/{MachineName}", Zone: "{Zone}",
	Place: map[string]string{"Project": "google-project", "Zone": "google-zone"},
	// The driver names the disk like the server with the suffix -disk, and every name begins with a
	// letter (RFC 1035).
	Names: NameRule{Longest: maxName - len("-disk"), LetterFirst: true},
	// Compute Engine, "Label resources": small letters, digits, _ and -, at most 63 characters.
	Tags:       TagFlag{Flag: "google-vm-labels", Form: Pairs, Characters: "_-", Lower: true, MaxKey: 63, MaxValue: 63},
	KeyInPlace: true,
	// Compute Engine, "About VM metadata": a value has at most 256 KB; the driver sends it as a
	// JSON string.
	UserData: UserData{Habit: PathAtCreate, Flag: "google-userdata", Limit: Limit{Bytes: 256 << 10}},
	// An instance that was there before gets no labels, and is not ours to remove.
	Finder: Finder{Kind: ByTag, Needs: []string{"google-project", "google-vm-labels", "google-zone"}, Unless: []string{"google-use-existing"}},
	Lists:  true,
	NodeDriver: &NodeDriver{Description: "Google Compute Engine.", AddCredential: true, Private: []string{"authEncodedJson"},
		Files: map[string]string{"authEncodedJson": "authEncodedJson", "userdata": "userdata"}},
	Beside: "its disk; where no other server uses them, also the firewall rules",
	words: words{
		// Reasons of Google's APIs and codes of Compute Engine's operations. Its limits per minute
		// are called quotas, too.
		rules: []rule{
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
		},
		resource: "the resource '", server: "/instances/",
	},
})
