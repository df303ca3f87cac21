package clouds

// The record has VMID before the virtual machine is asked for, and another client may take that number. So it is not what names
// the server: Remove is called only with VMUUID, with which the driver checks whom it removes.
// lnxbil/docker-machine-driver-proxmox-ve v4, proxmoxdriver.go, proxmox.go.
var _ = add(Cloud{
	Driver: "proxmoxve", ID: "VMUUID", UserData: UserData{Habit: None},
	Caveats: []Caveat{
		{RemoveHitsOthers, "The driver would remove another's virtual machine when a creation fails whose number was taken meanwhile. Drover does not let it; " +
			"what such a creation may have left is for you to look at."},
		{NeedsSSH, "With the strategy cdrom the driver logs in while it makes the server."},
		{Waits, "The driver waits for the guest agent without end; the Job's deadline ends it."},
		{RemoveFailsWhenGone, "The driver takes it for an error that a virtual machine is gone already."},
	},
	words: words{unsure: true},
})

// luthermonson/docker-machine-driver-proxmox, proxmox/proxmox.go. The name of the record's field was not checked, so that none
// is given here.
var _ = add(Cloud{
	Driver: "proxmox", UserData: UserData{Habit: None},
	Caveats: []Caveat{
		{LateID, "The record names the virtual machine only after it was cloned."},
		{KillDestroys, "The driver's Kill deletes the virtual machine."},
	},
	words: words{unsure: true},
})
