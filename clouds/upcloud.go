package clouds

import rkev1 "github.com/drover-project/drover/api/rke/v1"

// UpCloudLtd/docker-machine-driver-upcloud (2018) and its fork
// montel-ig/docker-machine-driver-upcloud v1.2.0, driver/upcloud.go.
var _ = add(Cloud{
	Driver: "upcloud", ID: "ServerUUID", ProviderID: "upcloud:////{ServerUUID}",
	UserData: UserData{Habit: PathAtCreate, Flag: "upcloud-userdata"},
	Beside:   "its storage devices",
	// The SDK prints "<message> (<CODE>)"; no code for quota or capacity is in its source.
	words: words{rules: []rule{{rkev1.ClassUnauthorized, []string{"(authentication_failed)", "(action_forbidden)"}}}},
})
