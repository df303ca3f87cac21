package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/state"
)

// State is what the state Secret tells without its secrets.
type State struct {
	// Name of the Secret; empty when there is none.
	Name string
	// Keys that have content.
	Keys []string
	// Server, Journal and Result are nil when they are missing or cannot be read; Problems says which cannot.
	Server  *state.Server
	Journal *state.Journal
	Result  *state.Result
	// ServerMayExist as far as the state tells; true when it cannot be read.
	ServerMayExist bool
	// Log is the kept end of the last operation's log.
	Log      string
	Problems []string
}

// ParseState reads a state Secret's content. It takes anything: a pod wrote it.
func ParseState(name string, data map[string][]byte) *State {
	s := &State{Name: name, Keys: filledKeys(data)}
	s.Server = document(s, data, state.ReadServer)
	s.Journal = document(s, data, state.ReadJournal)
	s.Result = document(s, data, state.ReadResult)
	s.ServerMayExist = serverMayExist(s)
	s.Log = tail(string(data[state.LogKey]), state.MaxLogBytes)
	return s
}

// Has reports whether a key has content.
func (s *State) Has(key string) bool {
	return s != nil && slices.Contains(s.Keys, key)
}

// IsTakenOver reports that there is a record of a server and no journal: the state is another system's, such as Rancher's.
func (s *State) IsTakenOver() bool {
	return len(s.Problems) == 0 && s.Journal == nil && s.ServerMayExist
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

// serverMayExist judges what was read; what could not be read may mean a server.
func serverMayExist(s *State) bool {
	if len(s.Problems) > 0 {
		return true
	}
	if s.Journal != nil {
		return s.Journal.Phase != state.PhaseGone
	}
	// State taken over from Rancher has no journal.
	return s.Server != nil || s.Has(state.ExtractedConfigKey)
}

// document reads one of the Secret's documents; nil when it is missing or bad, which is a problem to tell.
func document[T any](s *State, data map[string][]byte, read func(map[string][]byte) (T, error)) *T {
	value, err := read(data)
	if state.IsNoDocument(err) {
		return nil
	}
	if err != nil {
		s.Problems = append(s.Problems, fmt.Sprintf("Secret %s: %v", s.Name, err))
		return nil
	}
	return &value
}

// tail is the end of a text, from the beginning of a line if it has several.
func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	if _, rest, found := strings.Cut(text, "\n"); found && rest != "" {
		return rest
	}
	return strings.ToValidUTF8(text, "")
}
