package clouds

// The record has VMID before the virtual machine is asked for, and another client may take that number. So it is not what names
// the server: Remove is called only with VMUUID, with which the driver checks whom it removes.
// lnxbil/docker-machine-driver-proxmox-ve v4, proxmoxdriver.go, proxmox.go.
var _ = add(Cloud{
	Driver: "proxmoxve", ID: "VMUUID", UserData: UserData{Habit: None},
	words: words{unsure: true},
})

// luthermonson/docker-machine-driver-proxmox, proxmox/proxmox.go. The name of the record's field was not checked, so that none
// is given here.
var _ = add(Cloud{
	Driver: "proxmox", UserData: UserData{Habit: None},
	words: words{unsure: true},
})
