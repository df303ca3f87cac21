// Package ledger keeps the record of everything the local cloud ever made.
//
// The account and the cloud write to it; tests read it to learn what was made,
// by which token and request, and what still exists.
package ledger
