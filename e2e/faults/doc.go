// Package faults attacks the way from a machine to its server and back: the manager, the Job's pod and the cloud fail at
// every point there is, one at a time and two at once. After each run an oracle compares the cloud's ledger with the objects
// of the API: no server without an object, no second server for one machine, nothing stuck, nothing left.
//
// What is real: the API server, the machine controller's Reconcile, what runs in a Job's pod, rancher/machine's DigitalOcean
// driver in a process of its own, the local cloud with simulated servers. What is played: the Job controller and the kubelet.
// The points are not written down anywhere: a run without faults records every request of the manager, of the pod and of the
// driver, and each of them is a point.
//
//	make faults SEEDS=2000          many runs
//	make faults ONLY=1234           one again, by the number that a failure prints
package faults
