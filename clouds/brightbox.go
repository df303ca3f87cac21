package clouds

// brightbox/docker-machine-driver-brightbox, driver.go; errors: brightbox/gobrightbox, brightbox.go.
var _ = add(Cloud{
	Driver: "brightbox", ID: "MachineID", ProviderID: "brightbox://{MachineID}", UserData: UserData{Habit: None},
	Caveats: []Caveat{
		{OtherName, "The server is called like the machine with \" (docker-machine)\" after it."},
		{RemoveFailsWhenGone, "The driver takes it for an error that a server is gone already."},
		{Broken, "The password is not in the record and is read from BRIGHTBOX_PASSWORD at every call."},
	},
})
