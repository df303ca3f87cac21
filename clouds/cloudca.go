package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// cloud-ca/docker-machine-driver-cloudca v2.0.0, cloudca.go; errors: cloud-ca/go-cloudca,
// api/response.go.
var _ = add(Cloud{
	Driver: "cloudca", ID: "Id", UserData: UserData{Habit: None},
	NodeDriver: &NodeDriver{Description: "cloud.ca.", Hosts: []string{"objects-east.cloud.ca"},
		Plugin: Plugin{URL: "https://github.com/cloud-ca/docker-machine-driver-cloudca/files/2446837/docker-machine-driver-cloudca_v2.0.0_linux-amd64.zip",
			Checksums: map[string]string{"amd64": "1757e2b807b0fea4a38eade4e961bcc609853986a44a99a4e86a37ccea1f7679"}}},
	Beside:    "its public IP address and additional volume",
	Leftovers: "The driver leaves the SSH key in the account.",
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"http status code 401", "http status code 403"}},
	}},
})
