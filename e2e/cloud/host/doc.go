// Package host prepares this machine's network for the servers of a local
// cloud: one bridge, which one cloud at a time uses.
//
// It keeps a lock and what it changed under /run/drover, and leaves nothing
// behind once the cloud has gone. Package cloud uses it.
package host
