// Package vcenter serves govmomi's vCenter simulator for the vSphere driver and gives its virtual machines what the simulator
// lacks: a guest. When a virtual machine is powered on, its cloud-init seed is read back from where the driver put it, a guest
// is started with it (a real server of the local cloud, or only an address), and the guest's address is reported as VMware
// Tools would. docs/vsphere-simulator.md says what is still missing compared to a vCenter.
package vcenter
