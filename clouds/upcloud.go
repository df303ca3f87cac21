package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// UpCloudLtd/docker-machine-driver-upcloud (2018) and its fork montel-ig/docker-machine-driver-upcloud v1.2.0, driver/upcloud.go.
var _ = add(Cloud{
	Driver: "upcloud", ID: "ServerUUID", ProviderID: "upcloud:////{ServerUUID}", Zone: "{Zone}",
	UserData: UserData{Habit: PathAtCreate, Flag: "upcloud-userdata"},
	Caveats: []Caveat{
		{Broken, "The driver crashes when it is to remove a server that is gone: then give the server up with the annotation for that."},
		{Waits, "The driver waits for an address without end; the Job's deadline ends it."},
	},
	words: words{rules: []rule{
		{rkev1.ClassUnauthorized, []string{"authentication_failed", "action_forbidden"}},
		{rkev1.ClassThrottled, []string{"too_many_requests"}},
		{rkev1.ClassQuota, []string{"server_resources_exceeded", "storage_resources_exceeded", "resource_limit"}},
		{rkev1.ClassCapacity, []string{"server_resources_unavailable", "storage_resources_unavailable", "service_unavailable"}},
		{rkev1.ClassTransient, []string{"server_state_illegal"}},
		{rkev1.ClassInvalid, []string{"_invalid (", "_missing (", "_not_found"}},
	}},
})
