package clouds

// dhiltgen/docker-machine-kvm v0.8.2, kvm.go.
var _ = add(Cloud{
	Driver: "kvm", ByName: true, UserData: UserData{Habit: None},
	Caveats: []Caveat{
		{Broken, "The driver is linked to libvirt and needs the hypervisor beside it: it does not work in the pod of a Job."},
	},
})
