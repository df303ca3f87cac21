// Package process runs the components of localkube as child processes: each
// with a log file of its own, killed by the kernel when the parent dies,
// restarted where that is safe, and stopped in the reverse order of starting.
//
// It knows nothing of Kubernetes; controlplane and node say what to run.
package process
