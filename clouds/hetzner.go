package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// JonasProgrammer/docker-machine-driver-hetzner 5.0.2, driver; its fork
// CosmoAbdon/docker-machine-driver-hetzner has the same flags. Error codes: hetznercloud/hcloud-go,
// hcloud/error.go; the SDK prints "<message> (<code>, <correlation id>)".
var _ = add(Cloud{
	Driver: "hetzner", CloudInit: "hetzner", ZoneFlag: "hetzner-server-location", ID: "ServerID", ProviderID: "hcloud://{ServerID}", Zone: "{Location}",
	KeyInPlace: true, KeyUnless: []string{"hetzner-existing-key-path"},
	Tags: TagFlag{Flag: "hetzner-server-label", Form: List, Characters: "_-.", MaxKey: 63, MaxValue: 63},
	// hetzner-user-data takes the data itself, and with the switch a path.
	UserData: UserData{Habit: PathAtCreate, Flag: "hetzner-user-data-file", With: map[string]string{"hetzner-user-data-from-file": "false"},
		Excludes: []string{"hetzner-user-data"}, Merges: []string{"hetzner-additional-user-data"}, Limit: Limit{Bytes: 32 << 10}},
	Finder: Finder{Kind: ByTag, Needs: []string{"hetzner-api-token", "hetzner-server-label"}}, Lists: true,
	Beside:    "its SSH keys and the placement group made for it",
	Leftovers: "The driver leaves volumes, and primary IP addresses that are not deleted with their server.",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"(unauthorized", "(forbidden", "token_readonly"}},
		{rkev1.ClassThrottled, []string{"rate_limit_exceeded"}},
		{rkev1.ClassQuota, []string{"resource_limit_exceeded"}},
		{rkev1.ClassCapacity, []string{"resource_unavailable", "placement_error", "no_space_left_in_location", "ip_not_available", "no_subnet_available"}},
		{rkev1.ClassTransient, []string{"(locked", "resource_locked", "(conflict", "service_error", "server_error", "(maintenance", "(unavailable", "robot_unavailable",
			"(bad_gateway", "(timeout"}},
		{rkev1.ClassInvalid, []string{"invalid_input", "json_error", "uniqueness_error", "(not_found", "(protected", "invalid_server_type", "unsupported_error",
			"deprecated_api_endpoint", "networks_overlap", "primary_ip_", "vswitch_id_already_used"}},
	}, elsewhere: []string{"image", "server type", "location", "ssh key", "network", "firewall", "placement group"},
		afterRequest: []string{"could not wait for action"}},
})
