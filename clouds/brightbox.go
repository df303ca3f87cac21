package clouds

// brightbox/docker-machine-driver-brightbox, driver.go; errors: brightbox/gobrightbox, brightbox.go.
var _ = add(Cloud{
	Driver: "brightbox", ID: "MachineID", ProviderID: "brightbox://{MachineID}", UserData: UserData{Habit: None},
})
