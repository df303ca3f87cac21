package plugin

import (
	"bytes"
	"io"
	"strings"
)

// lastWords passes on a driver's standard error, and keeps the line in which Go reports why a
// process ends. A panic that was not recovered has its message only there, above a long stack.
type lastWords struct {
	out  io.Writer
	line []byte
	// last is the line as the end of a sentence, or empty.
	last string
}

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	for rest := p; ; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		w.line = append(w.line, line[:min(len(line), maxLine+1-len(w.line))]...)
		if !ended {
			return w.out.Write(p)
		}
		// A longer line is left out, because redaction would miss half a secret.
		words := string(w.line)
		if len(words) <= maxLine && (strings.HasPrefix(words, "panic: ") || strings.HasPrefix(words, "fatal error: ")) {
			words, _, _ = strings.Cut(words, " [recovered")
			w.last = ": " + words
		}
		w.line, rest = w.line[:0], after
	}
}
