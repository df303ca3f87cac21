// Package serverscan runs ServerScans. A Job lists the servers of a cloud account that carry our
// tags. The controller then reads the API: a server that belongs to no machine, and is provably
// ours, is an orphan. If the ServerScan says so, a second Job removes the orphans that are old
// enough. Schedule creates a ServerScan for each credential in use in each interval.
//
// It reads: ServerScans, the credential Secret, the CRDs of drivers, machines of all kinds, CAPI
// Clusters, the Jobs' result. It writes: ServerScans, their status, result and request Secrets,
// service account, Role, RoleBinding, Jobs. It deletes ServerScans one hour after their end, or
// after the time in their spec; the last periodic one stays if it has open findings. The CLI's gc
// command and users read the results.
package serverscan
