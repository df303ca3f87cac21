package facts

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// State is the content of a state Secret without its secrets.
type State struct {
	// Name of the Secret; empty if it does not exist.
	Name string
	// Server, Journal and Result are nil when they are missing or cannot be read; Problems says
	// which cannot.
	Server  *state.Server
	Journal *state.Journal
	Result  *state.Result
	// ServerMayExist by the state; true if the state cannot be read.
	ServerMayExist bool
	// Log is the kept end of the last operation's log.
	Log      string
	Problems []string
	// NoKey is true if the driver recorded that it keeps no SSH key.
	NoKey bool
	// Deleting is true if the Secret is being deleted, and only its finalizer keeps it.
	Deleting bool
}

// ParseState reads a state Secret's content. It takes anything: a pod wrote it.
func ParseState(name string, data map[string][]byte) *State {
	read := state.Of(data)
	_, err := sshkeys.AccessFrom(read)
	s := &State{Name: name, ServerMayExist: read.ServerMayExist(), NoKey: errors.Is(err, sshkeys.ErrNoKey)}
	s.Server = document(s, read.Server)
	s.Journal = document(s, read.Journal)
	s.Result = document(s, read.Result)
	s.Log = string(data[state.LogKey])
	if over := len(s.Log) - state.MaxLogBytes; over > 0 {
		s.Log = strings.ToValidUTF8(s.Log[over:], "")
		if _, rest, found := strings.Cut(s.Log, "\n"); found && rest != "" {
			s.Log = rest // from the beginning of a line
		}
	}
	return s
}

// IsTakenOver reports that there is a record of a server and no journal: the state is another
// system's, such as Rancher's.
func (s *State) IsTakenOver() bool {
	return len(s.Problems) == 0 && s.Journal == nil && s.ServerMayExist
}

// document is one of the Secret's documents; nil if it is missing or malformed, which is reported
// as a problem.
func document[T any](s *State, read state.Document[T]) *T {
	if read.IsAbsent() {
		return nil
	}
	if !read.IsRead() {
		s.Problems = append(s.Problems, fmt.Sprintf("Secret %s: %v", s.Name, read.Err))
		return nil
	}
	return &read.Value
}
