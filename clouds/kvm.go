package clouds

// dhiltgen/docker-machine-kvm v0.8.2, kvm.go.
var _ = add(Cloud{
	Driver: "kvm", ByName: true, UserData: UserData{Habit: None},
})
