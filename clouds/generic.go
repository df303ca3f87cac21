package clouds

var _ = add(Cloud{
	Driver: "generic", NoServer: true, NeedsKey: "generic-ssh-key", UserData: UserData{Habit: None},
	Rules:     map[string]Rule{"generic-ip-address": hostRule, "generic-ssh-port": portRule, "generic-ssh-key": privateKeyRule},
	Beside:    "the agent and its k3s or RKE2 on the host, and the file /var/lib/drover/claim, which keeps other machines away",
	Leftovers: "A host that was given up joins its cluster again when it is powered on, as an unmanaged Node without a Machine: clean the host by hand, and delete its Node.",
	NodeDriver: &NodeDriver{Description: "Takes over a server that runs already, over SSH.", Private: []string{"sshKey"},
		Optional: []string{"sshKey"}, Files: map[string]string{"sshKey": "sshKey"}},
})
