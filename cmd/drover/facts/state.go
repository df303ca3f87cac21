package facts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/jobrunner"
)

// State is what the state Secret tells without its secrets.
type State struct {
	// Name of the Secret; empty when there is none.
	Name string
	// Keys that have content.
	Keys []string
	// Server, Journal and Result are nil when they are missing or cannot be read; Problems says which cannot.
	Server  *jobrunner.Server
	Journal *jobrunner.Journal
	Result  *jobrunner.Result
	// Log is the kept end of the last operation's log.
	Log      string
	Problems []string
}

// ParseState reads a state Secret's content. It takes anything: a pod wrote it.
func ParseState(name string, data map[string][]byte) *State {
	s := &State{Name: name, Keys: filledKeys(data)}
	s.Server = parseDocument[jobrunner.Server](s, data, jobrunner.ServerKey)
	s.Journal = parseDocument[jobrunner.Journal](s, data, jobrunner.JournalKey)
	s.Result = parseDocument[jobrunner.Result](s, data, jobrunner.ResultKey)
	s.Log = tail(string(data[jobrunner.LogKey]), jobrunner.MaxLogBytes)
	return s
}

// Has reports whether a key has content.
func (s *State) Has(key string) bool {
	return s != nil && slices.Contains(s.Keys, key)
}

func filledKeys(data map[string][]byte) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if len(data[key]) > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

func parseDocument[T any](s *State, data map[string][]byte, key string) *T {
	if len(data[key]) == 0 {
		return nil
	}
	document := new(T)
	if err := json.Unmarshal(data[key], document); err != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("%s of Secret %s cannot be read: %v", key, s.Name, err))
		return nil
	}
	return document
}

func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[len(text)-limit:]
}
