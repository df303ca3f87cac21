package clouds

const notInAPod = "Works only on a desktop with the hypervisor installed, not in the pod of a Job."

// Drivers with short descriptions.
var _ = add(
	Cloud{Driver: "none", NoServer: true, UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: "Makes nothing; for tests."}},
	Cloud{Driver: "noop", NoServer: true, UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: "Makes nothing; for tests."}},
	Cloud{Driver: "hyperv", UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: notInAPod}},
	Cloud{Driver: "virtualbox", UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: notInAPod}},
	Cloud{Driver: "vmwarefusion", EnvPrefix: "FUSION", UserData: UserData{Habit: None}, NodeDriver: &NodeDriver{Description: notInAPod}},
	// brightbox/docker-machine-driver-brightbox, driver.go; errors: brightbox/gobrightbox,
	// brightbox.go.
	Cloud{Driver: "brightbox", ID: "MachineID", ProviderID: "brightbox://{MachineID}", UserData: UserData{Habit: None}},
	// fujitsu/docker-machine-driver-fsas, pkg/drivers/fsas/fsas.go.
	Cloud{Driver: "fsas", UserData: UserData{Habit: PathAtCreate, Flag: "fsas-userdata"}},
	// dhiltgen/docker-machine-kvm v0.8.2, kvm.go.
	Cloud{Driver: "kvm", ByName: true, UserData: UserData{Habit: None}},
	// opentelekomcloud/docker-machine-opentelekomcloud v2, which was read in part; its predecessor
	// is the driver otc. The file is read when the driver gets its flags.
	Cloud{Driver: "opentelekomcloud", UserData: UserData{Habit: PathEarly, Flag: "opentelekomcloud-user-data-file",
		Excludes: []string{"opentelekomcloud-user-data-raw"}, Limit: Limit{Bytes: 32 << 10}}},
	// oxidecomputer/rancher-machine-driver-oxide, oxide.go.
	Cloud{Driver: "oxide", UserData: UserData{Habit: PathAtCreate, Flag: "oxide-user-data-file"}},
	// luthermonson/docker-machine-driver-proxmox, proxmox/proxmox.go. The name of the record's
	// field was not checked, so that ID is empty here.
	Cloud{Driver: "proxmox", UserData: UserData{Habit: None}, words: words{unsure: true}},
	// lnxbil/docker-machine-driver-proxmox-ve v4, proxmoxdriver.go, proxmox.go. The record has VMID
	// before the virtual machine is requested, and another client may take that number. So VMID
	// does not name the server: Remove is called only with VMUUID, by which the driver verifies the
	// virtual machine.
	Cloud{Driver: "proxmoxve", ID: "VMUUID", UserData: UserData{Habit: None}, words: words{unsure: true}},
	// Negashev/docker-machine-driver-timeweb, timeweb/driver.go.
	Cloud{Driver: "timeweb",
		UserData: UserData{Habit: PathAtCreate, Flag: "timeweb-user-data", With: map[string]string{"timeweb-user-data-is-text": "false"}}},
)
