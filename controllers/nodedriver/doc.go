// Package nodedriver is the loop that turns a NodeDriver into three kinds of the API, and takes them away again when
// nothing uses them any more.
//
//	validate ─▶ download ─▶ install ─▶ schema ─▶ establish ─▶ activate
//
// It reads: NodeDrivers, the probe's Job and result Secret, CRDs of drivers, and, when a schema shrinks or a driver goes,
// the objects of its kinds. It writes: NodeDriver status and finalizer; in drover-drivers the probe's Job, Secrets, service
// account, Role and RoleBinding; the CRDs, as field owner drover-nodedriver. Who comes next: controllers/machine, which
// watches the kinds.
package nodedriver
