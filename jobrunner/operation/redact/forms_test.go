package redact_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/redact"
)

// TestRedactor_base64_at_any_offset: a secret within an encoded document starts at any of three places.
func TestRedactor_base64_at_any_offset(t *testing.T) {
	const secret = "correct horse battery staple"
	var r redact.Redactor
	r.Add(secret)
	for before := range 7 {
		for after := range 4 {
			document := strings.Repeat("b", before) + secret + strings.Repeat("a", after)
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
				got := r.String(encoding.EncodeToString([]byte(document)))
				require.Contains(t, got, redact.Mark)
				require.LessOrEqual(t, len(got), len(redact.Mark)+16, "nearly all of it is gone: %s", got)
			}
		}
	}
}

func TestRedactor_lengths(t *testing.T) {
	for secret, hidden := range map[string]bool{"abcd": true, "  abcd\n": true, "abc": false, " a ": false, "": false} {
		var r redact.Redactor
		r.Add(secret)
		require.Equal(t, hidden, strings.Contains(r.String("x abcd abc a x"), redact.Mark), "%q", secret)
	}
}

func TestRedactor_bytes(t *testing.T) {
	var r redact.Redactor
	r.Add("hunter2")
	require.Equal(t, "a [redacted] ?", string(r.Bytes([]byte("a hunter2 \xff"))))
	require.Empty(t, r.Bytes(nil))
}

func TestWriter_of_several_goroutines_keeps_lines_whole(t *testing.T) {
	var out bytes.Buffer
	var r redact.Redactor
	w := redact.NewWriter(&out, &r)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			r.Add("hunter2")
			for range 20 {
				_, _ = w.Write([]byte("it is hunter2\n"))
			}
		})
	}
	group.Wait()
	require.NoError(t, w.Close())
	require.Equal(t, strings.Repeat("it is [redacted]\n", 160), out.String())
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriter_tells_of_a_broken_output(t *testing.T) {
	w := redact.NewWriter(brokenWriter{}, &redact.Redactor{})
	n, err := w.Write([]byte("no end"))
	require.NoError(t, err)
	require.Equal(t, 6, n)
	require.ErrorContains(t, w.Close(), "disk full")
	_, err = w.Write([]byte("a\nb\n"))
	require.ErrorContains(t, err, "disk full")
}
