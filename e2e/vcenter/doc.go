// Package vcenter serves govmomi's vCenter simulator for the vSphere driver and gives its virtual
// machines a guest, which the simulator lacks. When a virtual machine is powered on, its cloud-init
// seed is read back from its place, a guest is started with it (a real server of the local cloud,
// or only an address), and the guest's address is reported as VMware Tools would.
// docs/vsphere-simulator.md lists the remaining differences from a vCenter.
package vcenter
