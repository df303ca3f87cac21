package redact

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// maxLine bounds a line. The rest of a longer one is dropped, because redaction would miss a secret
// that is cut in two.
const maxLine = 64 << 10

// Writer passes whole lines on, without secrets. It is safe for several goroutines.
type Writer struct {
	redactor *Redactor
	out      io.Writer

	mutex   sync.Mutex
	line    []byte
	cutting bool
}

// NewWriter returns a Writer to out; Close flushes a last line without an end.
func NewWriter(out io.Writer, redactor *Redactor) *Writer {
	return &Writer{out: out, redactor: redactor}
}

// Write accepts every content without an error of its own.
func (w *Writer) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var errs []error
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			w.keep(rest)
			break
		}
		w.keep(rest[:end])
		errs = append(errs, w.flush())
		rest = rest[end+1:]
	}
	return len(p), errors.Join(errs...)
}

// Close passes on the rest.
func (w *Writer) Close() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if len(w.line) == 0 {
		return nil
	}
	return w.flush()
}

func (w *Writer) keep(piece []byte) {
	if room := maxLine - len(w.line); len(piece) > room {
		piece, w.cutting = piece[:room], true
	}
	w.line = append(w.line, piece...)
}

// flush leaves a line out that was cut: its end may hold the beginning of a secret.
func (w *Writer) flush() error {
	line := w.line
	if w.cutting {
		line = []byte("[a line of more than 64 KiB was left out]")
	}
	redacted := append(w.redactor.Bytes(line), '\n')
	w.line, w.cutting = w.line[:0], false
	_, err := w.out.Write(redacted)
	return err
}
