package clouds

// fujitsu/docker-machine-driver-fsas, pkg/drivers/fsas/fsas.go.
var _ = add(Cloud{
	Driver: "fsas", UserData: UserData{Habit: PathAtCreate, Flag: "fsas-userdata"},
})
