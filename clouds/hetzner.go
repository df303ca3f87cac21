package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "hetzner", ID: "ServerID", ProviderID: "hcloud://{ServerID}", Zone: "{Location}",
	Tags:   TagFlag{Flag: "hetzner-server-label", Form: List, Characters: "_-.", MaxKey: 63, MaxValue: 63},
	Finder: Finder{Kind: ByTag, Needs: []string{"hetzner-api-token", "hetzner-server-label"}}, Lists: true,
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"(unauthorized", "(forbidden", "token_readonly"}},
		{rkev1.ClassThrottled, []string{"rate_limit_exceeded"}},
		{rkev1.ClassQuota, []string{"resource_limit_exceeded"}},
		{rkev1.ClassCapacity, []string{"resource_unavailable", "placement_error"}},
		{rkev1.ClassTransient, []string{"(locked", "resource_locked", "(conflict", "service_error", "(maintenance", "(unavailable"}},
		{rkev1.ClassInvalid, []string{"invalid_input", "json_error", "uniqueness_error", "(not_found", "(protected"}},
	}},
})
