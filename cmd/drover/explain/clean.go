package explain

import (
	"strings"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// clean makes text from outside safe to show.
func clean(text string) string { return facts.Clean(text) }

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
