package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "digitalocean", CloudInit: "digitalocean", ZoneFlag: "digitalocean-region",
	ID: "DropletID", ProviderID: "digitalocean://{DropletID}", Zone: "{Region}", Private: []string{"PrivateIPAddress"},
	// docs.digitalocean.com, API reference, Tags: letters, numbers, colons, dashes and underscores,
	// at most 255.
	Tags:       TagFlag{Flag: "digitalocean-tags", Form: Words, Characters: ":_-", MaxKey: 255},
	KeyInPlace: true, KeyUnless: []string{"digitalocean-ssh-key-fingerprint", "digitalocean-ssh-key-path"},
	// docs.digitalocean.com, API reference, POST /v2/droplets: user_data "must not exceed 64 KiB in
	// size". It travels in a JSON string, which cannot hold gzip.
	UserData: UserData{Habit: PathAtCreate, Flag: "digitalocean-userdata", Limit: Limit{Bytes: 64 << 10}},
	Finder:   Finder{Kind: ByTag}, Lists: true,
	NodeDriver: &NodeDriver{Description: "DigitalOcean.", Active: true, Hosts: []string{"api.digitalocean.com"},
		Private: []string{"accessToken"}, Files: map[string]string{"sshKeyContents": "sshKeyPath", "userdata": "userdata"}},
	Beside: "its SSH key",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"unable to authenticate you", "access-token option", "you are not authorized", "do not have access",
			"missing the required permission"}},
		{rkev1.ClassQuota, []string{"exceed your droplet limit", "droplet limit", "reached the limit"}},
		{rkev1.ClassCapacity, []string{"size is not available in this region", "currently unavailable", "region is not available",
			"currently restricted"}},
		{rkev1.ClassTransient, []string{"pending event"}},
		{rkev1.ClassInvalid, []string{"digitalocean requires a valid region", "invalid image", "invalid size", "you specified an invalid",
			"ssh key with fingerprint", "ssh-key-fingerprint needs", "name has invalid characters", "is already in use on your account",
			"user data"}},
	}},
})
