// Package process runs the components of localkube as child processes: each with its own log file,
// killed by the kernel when the parent dies, restarted if that is safe, and stopped in the reverse
// order of starting.
//
// It knows nothing of Kubernetes; controlplane and node define the components.
package process
