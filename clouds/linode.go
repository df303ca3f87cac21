package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// linode/docker-machine-driver-linode v0.1.16, pkg/drivers/linode/linode.go; errors:
// linode/linodego, errors.go, which prints "[<HTTP status>] [<field>] <reason>; …".
var _ = add(Cloud{
	Driver: "linode", ZoneFlag: "linode-region", ID: "InstanceID", ProviderID: "linode://{InstanceID}", Zone: "{Region}", Private: []string{"PrivateIPAddress"},
	// techdocs.akamai.com, Linode API, "Create a tag": 3 to 50 characters, so that a UID needs a
	// short key.
	Tags: TagFlag{Flag: "linode-tags", Form: Words, Characters: ":_-.", MaxKey: 50,
		Short: map[string]string{"drover-machine-uid": "drover-uid", "drover-cluster-uid": "drover-cuid", "drover-management": "drover-mgmt"}},
	Finder: Finder{Kind: ByTag, Needs: []string{"linode-token", "linode-tags"}}, Lists: true,
	KeyInPlace: true, UserData: UserData{Habit: None},
	NodeDriver: &NodeDriver{Description: "Akamai (Linode).", Hosts: []string{"api.linode.com"}, Private: []string{"token"}, Passwords: []string{"rootPass"},
		Plugin: Plugin{URL: "https://github.com/linode/docker-machine-driver-linode/releases/download/v0.1.15/docker-machine-driver-linode_linux-{arch}.zip",
			Checksums: map[string]string{
				"amd64": "26a71dbbc2f5249a66716cad586c3b4048d3cd9e67c0527442c374dd5dcf1c41",
				"arm64": "3b1ed74291cbf581c0f8a63d878d79e1fe3b443387c1c0bb8b1d078a78db8bc4"}}},
	Beside: "its disks",
	words: words{rules: []rule{
		{rkev1.ClassQuota, []string{"account limit reached"}},
		{rkev1.ClassUnauthorized, []string{"oauth scope", "account has been suspended", "invalid token"}},
		{rkev1.ClassTransient, []string{"linode busy", "please try again"}},
		{rkev1.ClassInvalid, []string{"linode driver requires the --linode-token", "label must be unique", "normalize instance label", "stackscript"}},
	}, elsewhere: []string{"stackscript", "image", "region", "type"}},
})
