// Package apply writes desired objects by server-side apply, each with a fixed field owner, and
// does not write objects that already match: a restart writes nothing. Several replicas may apply
// the same objects at the same time.
//
// It reads and writes the objects that it is given. Its callers are the controllers, and
// cmd/manager when it starts.
package apply
