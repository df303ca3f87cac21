// Package planner decides what each server of a cluster must be: from a snapshot of the cluster (snapshot.go) come a verdict for each machine, the
// plan it is given, if any, and what it waits for in words (verdict.go). It is a list of rules for the cluster (planner.go) and one for a machine
// (machine.go), each looked at in turn: the first that has something to say decides. What a plan holds is in render.go and the files it names.
//
// It is pure (design decisions D11, D24): the same snapshot gives the same bytes, and nothing in a plan comes from a UID, a clock or a status that a
// move loses. It reads releases/ and writes nothing. Next: controllers/rkecontrolplane takes the snapshot and writes the plan Secrets, agent/ obeys.
package planner
