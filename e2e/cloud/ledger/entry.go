package ledger

import (
	"encoding/json"
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
	// Data holds what is needed to rebuild the thing after a restart.
	Data json.RawMessage `json:"data,omitempty"`
}

// Record is the life of one thing: the sum of its entries.
type Record struct {
	Kind             Kind            `json:"kind"`
	ID               string          `json:"id"`
	Name             string          `json:"name,omitempty"`
	Tags             []string        `json:"tags,omitempty"`
	Token            string          `json:"token,omitempty"`
	RequestID        string          `json:"requestID,omitempty"`
	Created          time.Time       `json:"created"`
	Removed          *time.Time      `json:"removed,omitempty"`
	RemovedBy        string          `json:"removedBy,omitempty"` // the token that removed it
	RemovedRequestID string          `json:"removedRequestID,omitempty"`
	Cause            string          `json:"cause,omitempty"` // why it was removed, when not by a plain request
	Data             json.RawMessage `json:"data,omitempty"`
}

// IsLive reports whether the thing still exists.
func (r Record) IsLive() bool { return r.Removed == nil }

func (r *Record) apply(entry Entry) {
	switch entry.Op {
	case OpChanged:
		r.Tags = entry.Tags
		if entry.Name != "" {
			r.Name = entry.Name
		}
		if entry.Data != nil {
			r.Data = entry.Data
		}
	case OpRemoved:
		removed := entry.Time
		r.Removed = &removed
		r.RemovedBy = entry.Token
		r.RemovedRequestID = entry.RequestID
		r.Cause = entry.Cause
	case OpCreated, OpFault:
	}
}
