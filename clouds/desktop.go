package clouds

const notInAPod = "Works only on a desktop with the hypervisor installed, not in the pod of a Job."

var _ = add(
	Cloud{Driver: "hyperv", UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: notInAPod}},
	Cloud{Driver: "virtualbox", UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: notInAPod}},
	Cloud{Driver: "vmwarefusion", EnvPrefix: "FUSION", UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: notInAPod}},
)
