package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// maxLine bounds one line, so that a damaged file cannot exhaust memory. It is
// well above what any request of the API can put into one entry.
const maxLine = 8 << 20

// Ledger is the record. It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	file    *os.File
	size    int64 // of the whole lines in file
	entries []Entry
	records []*Record
	latest  map[string]*Record
}

// Open reads the ledger at path and goes on writing to it. An empty path
// makes a ledger that lives in memory only.
func Open(path string) (*Ledger, error) {
	l := &Ledger{latest: map[string]*Record{}}
	if path == "" {
		return l, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening ledger: %w", err)
	}
	l.file = file
	if err := l.load(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// load reads all whole lines. A torn last line is what a crash leaves behind:
// it is cut off, because what it told was never answered to anyone.
func (l *Ledger) load() error {
	reader := bufio.NewReaderSize(l.file, 64<<10)
	var whole int64
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading ledger: %w", err)
		}
		entry, err := Parse(line)
		if err != nil {
			return fmt.Errorf("reading ledger at byte %d: %w", whole, err)
		}
		l.remember(entry)
		whole += int64(len(line))
	}
	if err := l.file.Truncate(whole); err != nil {
		return fmt.Errorf("cutting torn ledger line: %w", err)
	}
	l.size = whole
	return nil
}

// Parse reads one line of a ledger file.
func Parse(line []byte) (Entry, error) {
	if len(line) > maxLine {
		return Entry{}, fmt.Errorf("parsing ledger line: longer than %d bytes", maxLine)
	}
	var entry Entry
	if err := json.Unmarshal(bytes.TrimSpace(line), &entry); err != nil {
		return Entry{}, fmt.Errorf("parsing ledger line: %w", err)
	}
	return entry, nil
}

// Append gives entry its number and time, keeps it and writes it out. An entry
// that could not be read again is refused; one that could only not be written
// is kept, because what it tells has happened.
func (l *Ledger) Append(entry Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.Seq = len(l.entries) + 1
	entry.Time = time.Now().UTC()
	line, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("encoding ledger entry: %w", err)
	}
	if len(line) >= maxLine {
		return fmt.Errorf("encoding ledger entry: longer than %d bytes", maxLine)
	}
	l.remember(entry)
	if l.file == nil {
		return nil
	}
	// What a full disk left of an earlier line is overwritten: lines after a torn one could never be read again.
	line = append(line, '\n')
	if _, err := l.file.WriteAt(line, l.size); err != nil {
		return errors.Join(fmt.Errorf("writing ledger: %w", err), l.file.Truncate(l.size))
	}
	l.size += int64(len(line))
	return nil
}

func (l *Ledger) remember(entry Entry) {
	l.entries = append(l.entries, entry)
	if entry.Op == OpFault {
		return
	}
	key := string(entry.Kind) + "/" + entry.ID
	if entry.Op == OpCreated {
		record := &Record{
			Kind: entry.Kind, ID: entry.ID, Name: entry.Name, Tags: entry.Tags, Token: entry.Token,
			RequestID: entry.RequestID, Created: entry.Time, Data: entry.Data,
		}
		l.records = append(l.records, record)
		l.latest[key] = record
		return
	}
	if record, ok := l.latest[key]; ok {
		record.apply(entry)
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
	return l.collect(kinds, func(*Record) bool { return true })
}

// Live returns what exists now, oldest first; with kinds, only those.
func (l *Ledger) Live(kinds ...Kind) []Record {
	return l.collect(kinds, func(r *Record) bool { return r.IsLive() })
}

func (l *Ledger) collect(kinds []Kind, keep func(*Record) bool) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []Record{}
	for _, record := range l.records {
		if len(kinds) > 0 && !slices.Contains(kinds, record.Kind) {
			continue
		}
		if keep(record) {
			found = append(found, *record)
		}
	}
	return found
}

// Close closes the file. The ledger can still be read.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	if err := file.Close(); err != nil {
		return fmt.Errorf("closing ledger: %w", err)
	}
	return nil
}
