// Package planner decides the target state of each server of a cluster. From a snapshot of the
// cluster (snapshot.go) it derives a verdict for each machine, its plan if one is due, and the
// reason for waiting (verdict.go). It has a list of rules for the cluster (planner.go) and one for
// a machine (machine.go). Rules are checked in order, and the first that objects decides. render.go
// and the files it names build the content of a plan.
//
// It is pure: the same snapshot gives the same bytes, and nothing in a
// plan comes from a UID, a clock or a status that a move loses. It reads releases/ and writes
// nothing. controllers/rkecontrolplane takes the snapshot and writes the plan Secrets; agent/
// applies the plans.
package planner
