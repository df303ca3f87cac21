// Package explain decides, from a snapshot, why a machine, a cluster or a driver waits or failed,
// and suggests next steps. It is pure: Machine, Cluster and Driver turn facts into a Report,
// Render turns a Report into one screen of text. The advice is a table: every reason and class of
// api/rke/v1 and api/management/v3 has an entry, which a test checks.
package explain
