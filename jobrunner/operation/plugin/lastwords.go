package plugin

import (
	"bytes"
	"io"
	"strings"
)

// lastWords passes on what a driver prints on its standard error, and keeps the line by which Go says why a process ends: of a panic that
// nobody recovered the words are there alone, above a long stack.
type lastWords struct {
	out  io.Writer
	line []byte
	// last is the line, to be put behind a sentence; empty when there was none.
	last string
}

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	for rest, ended := p, true; ended; {
		var line []byte
		line, rest, ended = bytes.Cut(rest, []byte("\n"))
		w.line = append(w.line, line[:min(len(line), maxLine+1-len(w.line))]...)
		if ended {
			w.end()
		}
	}
	return w.out.Write(p)
}

// end is that of a line. A longer one is left out, for half a secret would not be found in it.
func (w *lastWords) end() {
	line := string(w.line)
	if len(line) <= maxLine && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
		line, _, _ = strings.Cut(line, " [recovered")
		w.last = ": " + line
	}
	w.line = w.line[:0]
}
