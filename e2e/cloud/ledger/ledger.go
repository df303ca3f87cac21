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

// Op says what happened to a thing.
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
	Seq       int       `json:"seq"`
	Time      time.Time `json:"time"`
	Op        Op        `json:"op"`
	Kind      Kind      `json:"kind,omitempty"`
	ID        string    `json:"id,omitempty"`
	Name      string    `json:"name,omitempty"`
	Tags      []string  `json:"tags,omitempty"`
	Token     string    `json:"token,omitempty"`     // the token's name, never its secret
	RequestID string    `json:"requestID,omitempty"` // the x-request-id the client was given
	Cause     string    `json:"cause,omitempty"`     // why, when it was not a plain API request
}

// Record is the life of one thing: the sum of its entries.
type Record struct {
	Kind      Kind       `json:"kind"`
	ID        string     `json:"id"`
	Name      string     `json:"name,omitempty"`
	Tags      []string   `json:"tags,omitempty"`
	Token     string     `json:"token,omitempty"`
	RequestID string     `json:"requestID,omitempty"`
	Created   time.Time  `json:"created"`
	Removed   *time.Time `json:"removed,omitempty"`
	RemovedBy string     `json:"removedBy,omitempty"` // the token that removed it
	Cause     string     `json:"cause,omitempty"`     // why it was removed, when not by a plain request
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

// Append gives entry its number and time, and keeps it.
func (l *Ledger) Append(entry Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.Seq, entry.Time = len(l.entries)+1, time.Now().UTC()
	l.entries = append(l.entries, entry)
	key := string(entry.Kind) + "/" + entry.ID
	record := l.latest[key]
	switch {
	case entry.Op == OpCreated:
		record = &Record{
			Kind: entry.Kind, ID: entry.ID, Name: entry.Name, Tags: entry.Tags, Token: entry.Token,
			RequestID: entry.RequestID, Created: entry.Time,
		}
		l.records = append(l.records, record)
		l.latest[key] = record
	case record == nil || entry.Op == OpFault:
	case entry.Op == OpChanged:
		record.Tags = entry.Tags
	case entry.Op == OpRemoved:
		record.Removed, record.RemovedBy, record.Cause = &entry.Time, entry.Token, entry.Cause
	}
}

// Entries returns a copy of every line, oldest first.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Entry{}, l.entries...) // [] in JSON when there are none
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

// Live returns what exists now, oldest first; with kinds, only those.
func (l *Ledger) Live(kinds ...Kind) []Record {
	return slices.DeleteFunc(l.Records(kinds...), func(r Record) bool { return !r.IsLive() })
}
