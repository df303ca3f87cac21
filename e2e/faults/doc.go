// Package faults attacks the way from a machine to its server and back: the manager, the Job's pod, its disk, the API server
// and the cloud fail at every point there is, one at a time and two at once. After each turn and each run an oracle compares
// the cloud's ledger with the objects of the API: no server without an object, no second server for one machine, nothing
// stuck, nothing left, no wrong cause.
//
// What is real: the API server, the machine controller's Reconcile, what runs in a Job's pod, in a process of its own,
// rancher/machine's DigitalOcean driver as its plugin, the local cloud with simulated servers. What is played: the Job
// controller and the kubelet. The points are not written down anywhere: a run without faults records every request of the
// manager, of the pod and of the driver, and what the machine directory takes; each of them is a point. docs/faults.md tells more.
//
//	make faults SEEDS=2000          many runs
//	make faults ONLY=1234           one again, by the number that a failure prints
package faults
