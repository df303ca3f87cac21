package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// yandex-cloud/docker-machine-driver-yandex v0.1.38, driver/driver.go, driver/client.go,
// driver/mime.go. Labels, metadata and names: yandex-cloud/cloudapi,
// yandex/cloud/compute/v1/instance_service.proto.
var _ = add(Cloud{
	Driver: "yandex", ID: "InstanceID", ProviderID: "yandex://{InstanceID}", Zone: "{Zone}",
	Names: NameRule{LetterFirst: true},
	Tags:  TagFlag{Flag: "yandex-labels", Form: List, Characters: "-_./@", Lower: true, MaxKey: 63, MaxValue: 63},
	// The driver makes a MIME message of its own part and the user's, and calls both
	// text/cloud-config.
	UserData: UserData{Habit: PathAtCreate, Flag: "yandex-userdata", CloudConfigOnly: true, Limit: Limit{Bytes: 256 << 10}},
	Beside:   "its disks",
	// The name of the gRPC code stands in the text. The SDK's source does not show which texts mean
	// quota.
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"code = unauthenticated", "code = permissiondenied"}},
		{rkev1.ClassQuota, []string{"code = resourceexhausted"}},
		{rkev1.ClassTransient, []string{"code = unavailable", "code = internal", "code = deadlineexceeded", "code = aborted"}},
		{rkev1.ClassInvalid, []string{"code = invalidargument", "code = alreadyexists", "code = failedprecondition"}},
	}, gone: []string{"code = notfound"}},
})
