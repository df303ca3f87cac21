// Package serverscan does ServerScans: a Job lists the servers of a cloud account that carry our tags; what the API knows is
// read afterwards; what no machine knows, and is provably ours, is an orphan. If the ServerScan says so, a second Job removes
// the orphans that are old enough. Schedule makes a ServerScan for each credential in use in each interval.
//
// It reads: ServerScans, the credential Secret, the CRDs of drivers, machines of all kinds, CAPI Clusters, the Jobs' result.
// It writes: ServerScans, their status, result and request Secrets, service account, Role, RoleBinding, Jobs; it deletes
// ServerScans that are done for an hour, or for as long as they say; the last periodic one stays if it
// leaves something open. Who comes next: the CLI's gc, people.
package serverscan
