package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// nutanix/docker-machine v3.9.0, machine/driver/driver.go; errors:
// nutanix-cloud-native/prism-go-client, internal/client.go.
var _ = add(Cloud{
	Driver: "nutanix", ID: "VMId", ProviderID: "nutanix://{VMId}", KeyInPlace: true,
	// The driver reads the data as YAML, after it has replaced every written-out \n and \r by a
	// line break.
	UserData: UserData{Habit: Inline, Flag: "nutanix-cloud-init", CloudConfigOnly: true, Breaks: []string{`\n`, `\r`}},
	NodeDriver: &NodeDriver{Description: "Nutanix AHV.", Hosts: []string{"nutanix.github.io"},
		Public: []string{"endpoint", "username", "port"}, Private: []string{"password"},
		Plugin: Plugin{URL: "https://github.com/nutanix/docker-machine/releases/download/v3.7.0/docker-machine-driver-nutanix",
			Checksums: map[string]string{"amd64": "2f70c4bdccd3c5e68bd8c32aadb5b525275a3cda5799f29736f37bdd168caa94"}}},
	Beside: "its disks",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"invalid nutanix credentials"}},
		{rkev1.ClassInvalid, []string{"cloud-init syntax error", "status: 422", "status: 400"}},
	}, gone: []string{"entity_not_found"}, unsure: true},
})
