package clouds

var _ = add(Cloud{
	Driver: "rackspace", EnvPrefix: "OS", ID: "MachineId",
	UserData:   UserData{Habit: None, Limit: novaUserData},
	NodeDriver: &NodeDriver{Description: "Rackspace.", Private: []string{"apiKey"}},
	Beside:     "its SSH key pair",
	words:      words{rules: openstackRules},
})
