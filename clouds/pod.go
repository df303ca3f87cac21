package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

var _ = add(Cloud{
	Driver: "pod", ByName: true,
	// The data becomes a Secret, whose limit is 1 MiB with all it holds.
	UserData:   UserData{Habit: PathAtCreate, Flag: "pod-userdata", Limit: Limit{Bytes: 900 << 10}},
	NodeDriver: &NodeDriver{Description: "Makes a pod of this cluster act as a server; for tests.", Files: map[string]string{"userdata": "userdata"}},
	words: words{rules: []rule{
		{rkev1.ClassQuota, []string{"exceeded quota"}},
		{rkev1.ClassUnauthorized, []string{"unauthorized", "cannot create resource", "cannot get resource", "cannot delete resource",
			"cannot patch resource", "cannot list resource", "asked for the client to provide credentials"}},
		{rkev1.ClassTransient, []string{"currently unable to handle the request", "could not be completed at this time", "timeout", "etcdserver",
			"object has been modified", "is being terminated", "internal error occurred", "watch closed before ip"}},
		{rkev1.ClassInvalid, []string{"is invalid: ", "denied the request", " not found", "violates podsecurity", "already exists",
			"cannot read userdata file"}},
	}},
})
