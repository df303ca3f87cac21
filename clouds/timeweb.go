package clouds

// Negashev/docker-machine-driver-timeweb, timeweb/driver.go.
var _ = add(Cloud{
	Driver:   "timeweb",
	UserData: UserData{Habit: PathAtCreate, Flag: "timeweb-user-data", With: map[string]string{"timeweb-user-data-is-text": "false"}},
})
