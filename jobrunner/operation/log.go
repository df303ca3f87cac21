package operation

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drover-project/drover/jobrunner/operation/redact"
	"github.com/drover-project/drover/state"
)

// journalLog is the operation's log: every line without secrets, with its time, to the pod's output and to a ring that is
// kept in the state.
type journalLog struct {
	*redact.Writer
	ring *ring
}

func newLog(out io.Writer, redactor *redact.Redactor) *journalLog {
	kept := &ring{limit: state.MaxLogBytes}
	return &journalLog{Writer: redact.NewWriter(&stamp{out: io.MultiWriter(out, kept)}, redactor), ring: kept}
}

// printf writes a line of our own.
func (l *journalLog) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(l, format+"\n", args...)
}

// stamp puts the time before each line; redact.Writer writes line by line.
type stamp struct{ out io.Writer }

// Write implements io.Writer.
func (s *stamp) Write(line []byte) (int, error) {
	if _, err := fmt.Fprintf(s.out, "%s %s", time.Now().UTC().Format("15:04:05.000"), line); err != nil {
		return 0, err
	}
	return len(line), nil
}

// ring keeps the end of what is written, from the beginning of a line on.
type ring struct {
	mutex sync.Mutex
	limit int
	data  []byte
}

// Write implements io.Writer.
func (r *ring) Write(p []byte) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.data = append(r.data, p...)
	if excess := len(r.data) - r.limit; excess > 0 {
		whole := r.data[excess-1] == '\n'
		r.data = r.data[excess:]
		if end := bytes.IndexByte(r.data, '\n'); end >= 0 && !whole {
			r.data = r.data[end+1:]
		}
	}
	return len(p), nil
}

func (r *ring) bytes() []byte {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return bytes.Clone(r.data)
}
