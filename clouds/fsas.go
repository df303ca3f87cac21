package clouds

// fujitsu/docker-machine-driver-fsas, pkg/drivers/fsas/fsas.go.
var _ = add(Cloud{
	Driver: "fsas", UserData: UserData{Habit: PathAtCreate, Flag: "fsas-userdata"},
	Caveats: []Caveat{
		{NeedsSSH, "The driver brings the user data over SSH and runs cloud-init again, so that the Job must reach the server's SSH port."},
	},
})
