// Package faults attacks the way from a machine to its server and back: the manager, the Job's pod,
// its disk, the API server and the cloud fail at every possible point, one at a time and two
// simultaneously. After each turn and each run an oracle compares the cloud's ledger with the
// objects of the API: no server without an object, no second server for one machine, nothing stuck,
// nothing left, no wrong cause.
//
// Real parts: the API server, the machine controller's Reconcile, the program of a Job's pod in a
// process of its own, rancher/machine's DigitalOcean driver as its plugin, the local cloud with
// simulated servers. Simulated parts: the Job controller and the kubelet. The points are not listed
// anywhere: a run without faults records every request of the manager, of the pod and of the
// driver, and every write to the machine directory; each of them is a point. See docs/faults.md.
//
//	make faults SEEDS=2000          many runs
//	make faults ONLY=1234           one again, by the number that a failure prints
package faults
