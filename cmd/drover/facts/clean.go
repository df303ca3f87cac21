package facts

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode"
)

// escapes are a terminal's control sequences, such as those for colours.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])`)

// Clean makes text from outside safe to show: no control characters that a terminal would obey, no
// line breaks.
func Clean(text string) string {
	return strings.Join(strings.Fields(cleanLine(text)), " ")
}

// cleanLine is Clean that keeps tabs and all spaces.
func cleanLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Cf, r):
			// Cf has the characters that turn the direction of writing, and so can show another
			// text than is there.
			return -1
		}
		return r
	}, escapes.ReplaceAllString(text, ""))
}

// maxLine is how much of a line is held back until its end comes.
const maxLine = 64 << 10

// Terminal writes untrusted text to a terminal without its control characters: each line as Clean
// would write it, with its spaces. Text for a file should stay unchanged.
type Terminal struct {
	// Out is the terminal. The last line comes with Flush, unless it ended.
	Out io.Writer

	line []byte
}

// Write implements io.Writer.
func (t *Terminal) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		text, after, ended := bytes.Cut(rest, []byte{'\n'})
		t.line = append(t.line, text...)
		rest = after
		if !ended && len(t.line) < maxLine {
			break
		}
		if err := t.Flush(); err != nil {
			return 0, err
		}
		if ended {
			if _, err := io.WriteString(t.Out, "\n"); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// Flush writes the beginning of a line that has not ended.
func (t *Terminal) Flush() error {
	shown := cleanLine(strings.TrimSuffix(string(t.line), "\r"))
	t.line = t.line[:0]
	if shown == "" {
		return nil
	}
	_, err := io.WriteString(t.Out, shown)
	return err
}
