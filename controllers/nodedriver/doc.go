// Package nodedriver creates three kinds of the API for each NodeDriver, and removes them when no
// object uses them.
//
//	validate ─▶ download ─▶ install ─▶ schema ─▶ establish ─▶ activate
//
// It reads: NodeDrivers, the probe's Job and result Secret, CRDs of drivers, and, when a schema
// loses fields or a driver is deleted, the objects of its kinds. It writes: NodeDriver status and
// finalizer; in drover-drivers the probe's Job, Secrets, service account, Role and RoleBinding; the
// CRDs, as field owner drover-nodedriver. The controllers/machine package watches these kinds.
package nodedriver
