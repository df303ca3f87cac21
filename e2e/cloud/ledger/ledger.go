// Package ledger records everything that the local cloud ever made.
//
// The account and the cloud write to it. Tests read which objects were made, by which token and
// request, and which of them still exist.
package ledger

import (
	"slices"
	"sync"
	"time"
)

// Kind names a sort of thing the cloud makes.
type Kind string

// The kinds of things a ledger knows.
const (
	KindDroplet Kind = "droplet"
	KindKey     Kind = "key"
	KindTag     Kind = "tag"
	KindServer  Kind = "server" // started by a test, outside the droplet API
)

// Op is the operation on an object.
type Op string

// The operations a ledger records.
const (
	OpCreated Op = "created"
	OpChanged Op = "changed"
	OpRemoved Op = "removed"
	OpFault   Op = "fault" // a programmed fault was applied to a request
)

// Entry is one line of the ledger.
type Entry struct {
	Time      time.Time
	Op        Op
	Kind      Kind
	ID, Name  string
	Tags      []string
	Token     string // the token's name, never its secret
	RequestID string // the x-request-id the client was given
	Cause     string // why, when it was not a plain API request
}

// Record is the life of one thing: how it was created, with the tags that it has now.
type Record struct {
	Entry
	Removed *time.Time
}

// IsLive reports whether the thing still exists.
func (r Record) IsLive() bool { return r.Removed == nil }

// Ledger is the record. It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	entries []Entry
	records []*Record
	latest  map[string]*Record
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{latest: map[string]*Record{}} }

// Append gives entry its time, and keeps it.
func (l *Ledger) Append(entry Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.Time = time.Now().UTC()
	l.entries = append(l.entries, entry)
	key := string(entry.Kind) + "/" + entry.ID
	record := l.latest[key]
	switch {
	case entry.Op == OpCreated:
		record = &Record{Entry: entry}
		l.records = append(l.records, record)
		l.latest[key] = record
	case record == nil || entry.Op == OpFault:
	case entry.Op == OpChanged:
		record.Tags = entry.Tags
	case entry.Op == OpRemoved:
		record.Removed = &entry.Time
	}
}

// Entries returns a copy of every line, oldest first.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Records returns everything ever made, oldest first; with kinds, only those.
func (l *Ledger) Records(kinds ...Kind) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []Record{}
	for _, record := range l.records {
		if len(kinds) == 0 || slices.Contains(kinds, record.Kind) {
			found = append(found, *record)
		}
	}
	return found
}

// Live returns the existing objects, oldest first; with kinds, only objects of those kinds.
func (l *Ledger) Live(kinds ...Kind) []Record {
	return slices.DeleteFunc(l.Records(kinds...), func(r Record) bool { return !r.IsLive() })
}
