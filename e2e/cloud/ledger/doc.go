// Package ledger keeps the append-only record of everything the local cloud
// ever made.
//
// It reads and writes JSON lines in one file. The account and the cloud write
// to it, tests read it to learn what was made, by which token and request, and
// what still exists; at a restart the account is rebuilt from it.
package ledger
