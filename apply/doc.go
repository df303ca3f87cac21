// Package apply puts desired objects into a cluster by server-side apply, each with a fixed field owner, and leaves alone
// what is already so: a restart writes nothing. Several replicas may apply the same at the same time.
//
// It reads and writes: whatever it is given. Who asks: controllers, and cmd/manager when it starts.
package apply
