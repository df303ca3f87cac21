package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "softlayer", ID: "Id", UserData: UserData{Habit: None},
	NodeDriver: &NodeDriver{Description: "IBM Cloud classic infrastructure (SoftLayer).", Private: []string{"apiKey"}},
	Beside:     "its SSH key",
	words: words{
		rules: []rule{
			{rkev1.ClassUnauthorized, []string{"invalid api token", "access denied"}},
			{rkev1.ClassInvalid, []string{"can not specify both", "invalid value provided for"}},
			// No more than this is left of an answer that is not the API's.
			{rkev1.ClassTransient, []string{`error in response: "`}},
		},
		gone: []string{"unable to find object with id"},
	},
})
