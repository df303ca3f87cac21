package facts

import (
	"regexp"
	"strings"
	"unicode"
)

// escapes are a terminal's control sequences, such as those for colours.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])`)

// Clean makes text from outside safe to show: no control characters that a terminal would obey, no line breaks.
func Clean(text string) string {
	text = escapes.ReplaceAllString(text, "")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Cf, r):
			// Cf has the characters that turn the direction of writing, and so can show another text than is there.
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
