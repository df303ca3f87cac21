package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Phase is how far the attempt in the journal came.
type Phase string

// The phases of a Journal.
const (
	Applying  Phase = "applying"
	Failed    Phase = "failed"
	Succeeded Phase = "succeeded"
)

// Journal is the state that the agent must not lose: the plan that it took up, and the steps that
// are done. It is on disk before the next step begins.
type Journal struct {
	// Checksum and Revision are the order: this plan, taken up for the so-manieth time.
	Checksum string `json:"checksum"`
	Revision int    `json:"revision"`
	Phase    Phase  `json:"phase"`
	// Attempt is the number that instructions get. It grows with every attempt at the same content,
	// also by another order, so that scripts which remember it (§6.8, idempotence) run again when
	// they are ordered again.
	Attempt int `json:"attempt"`
	// Failures are the attempts of this order that failed; Successes those in a row that did not.
	Failures  int `json:"failures,omitempty"`
	Successes int `json:"successes,omitempty"`
	// FilesDone and InstructionsDone are the steps that are never done again for this order.
	FilesDone        bool `json:"filesDone,omitempty"`
	InstructionsDone int  `json:"instructionsDone,omitempty"`
	// Output holds the saved output of instructions, by name.
	Output map[string][]byte `json:"output,omitempty"`
	// Step, Message and Tail describe the last failure, as in plan.AgentStatus.
	Step    string `json:"step,omitempty"`
	Message string `json:"message,omitempty"`
	Tail    string `json:"tail,omitempty"`
	// Ended is when the last attempt did.
	Ended time.Time `json:"ended,omitzero"`
}

// JournalFile is the name of the journal in the agent's folder.
const JournalFile = "journal.json"

// maxJournalBytes bounds the file.
const maxJournalBytes = 4 << 20

// ReadJournal reads the journal of an agent's folder. None is an empty one; one that cannot be read
// is an error, for starting afresh would run instructions again.
func ReadJournal(folder string) (Journal, error) {
	var j Journal
	content, err := ReadBounded(filepath.Join(folder, JournalFile), maxJournalBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return j, fmt.Errorf("reading the journal: %w", err)
	}
	return parseJournal(content)
}

func parseJournal(content []byte) (Journal, error) {
	var j Journal
	if err := json.Unmarshal(content, &j); err != nil {
		return Journal{}, fmt.Errorf("reading the journal: %w", err)
	}
	if j.Revision < 0 || j.Attempt < 0 || j.Failures < 0 || j.InstructionsDone < 0 {
		return Journal{}, errors.New("reading the journal: it has a number below zero")
	}
	switch j.Phase {
	case Applying, Failed, Succeeded:
	default:
		return Journal{}, fmt.Errorf("reading the journal: its phase %.40q is not known", j.Phase)
	}
	return j, nil
}

func (j Journal) write(folder string) error {
	content, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := WriteFile(filepath.Join(folder, JournalFile), content, 0o600); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// ordered is the journal of a new order.
func (j Journal) ordered(checksum string, revision int) Journal {
	attempt := 1
	if j.Checksum == checksum {
		attempt = j.Attempt + 1
	}
	return Journal{Checksum: checksum, Revision: revision, Phase: Applying, Attempt: attempt, Successes: j.Successes}
}

// ReadBounded reads a file of at most so many bytes.
func ReadBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return content, nil
}
