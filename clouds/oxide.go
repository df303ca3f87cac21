package clouds

// oxidecomputer/rancher-machine-driver-oxide, oxide.go.
var _ = add(Cloud{
	Driver: "oxide", UserData: UserData{Habit: PathAtCreate, Flag: "oxide-user-data-file"},
})
