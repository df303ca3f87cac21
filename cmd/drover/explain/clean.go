package explain

import (
	"regexp"
	"strings"
	"unicode"
)

// escapes are a terminal's control sequences, such as those for colours.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])`)

// clean makes text from outside safe to show: no control characters that a terminal would obey, no line breaks.
func clean(text string) string {
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

func cleanAll(texts []string) []string {
	var cleaned []string
	for _, text := range texts {
		cleaned = append(cleaned, clean(text))
	}
	return cleaned
}

// lastLines are the last lines of a log, cleaned one by one; indentation stays.
func lastLines(log string, limit int) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(log, "\n"), "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if text := clean(line); text != "" {
			lines = append(lines, strings.ReplaceAll(indent, "\t", "  ")+text)
		}
	}
	if len(lines) > limit {
		lines = lines[len(lines)-limit:]
	}
	return lines
}
