package explain

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/cmd/drover/facts"
)

const (
	// width is where prose is wrapped.
	width = 110
	// maxLogLine is where a line of the log is cut: some drivers print whole documents. drover logs
	// shows it all.
	maxLogLine = 240
)

// Render writes a report as one screen of plain text.
func Render(w io.Writer, r *Report) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s  %s\n", r.Subject, cmp.Or(r.Phase, "Unknown"))
	var known []string
	for _, fact := range r.Facts {
		known = append(known, fact.Name+" "+fact.Value)
	}
	if len(known) > 0 {
		fmt.Fprintf(&out, "  %s\n", strings.Join(known, " | "))
	}
	renderProse(&out, "WHY", r.Verdict)
	renderTable(&out, "STEPS", r.Steps, func(s Step) []string {
		return []string{string(s.State), s.Name, cmp.Or(s.Reason, "-"), cmp.Or(facts.Age(r.now, ptr.Deref(s.Since, time.Time{})), "-")}
	})
	renderTable(&out, "RELATED", r.Related, func(item Related) []string { return []string{item.Role, item.Name, item.State} })
	renderTable(&out, "EVENTS", r.Events, func(e Event) []string {
		when := facts.Age(r.now, e.Time)
		if e.Count > 1 {
			when += fmt.Sprintf(" (x%d)", e.Count)
		}
		return []string{when, e.Type, e.Reason, e.Object, shorten(e.Message, width)}
	})
	if r.Log != nil {
		fmt.Fprintf(&out, "\nLOG (end of %s)\n", r.Log.Source)
		for _, line := range r.Log.Lines {
			fmt.Fprintf(&out, "  %s\n", shorten(line, maxLogLine))
		}
	}
	renderProse(&out, "COULD NOT BE READ", r.Problems)
	out.WriteString("\nWHAT TO DO NEXT\n")
	if len(r.Next) == 0 {
		out.WriteString("  Nothing.\n")
	}
	for i, line := range r.Next {
		wrap(&out, fmt.Sprintf("  %d. ", i+1), "     ", line)
	}
	for _, address := range r.Docs {
		fmt.Fprintf(&out, "  More: %s\n", address)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func renderProse(out *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	for _, line := range lines {
		wrap(out, "  ", "    ", line)
	}
}

// renderTable writes a row for each item under a title, when there are any.
func renderTable[T any](out *strings.Builder, title string, items []T, row func(T) []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, item := range items {
		_, _ = fmt.Fprintln(table, "  "+strings.TrimRight(strings.Join(row(item), "\t"), "\t "))
	}
	_ = table.Flush()
}

// command is one in an advice: from a program after a colon or semicolon up to the next semicolon
// that is in no quotes, or the end.
var command = regexp.MustCompile(`[:;] (?:kubectl|drover|curl)(?: (?:'[^']*'|\\.|[^';\\])*)?`)

// unbroken replaces the spaces of a command, so that no line breaks there.
const unbroken = "\x00"

// wrap writes text in lines of at most width characters, broken at spaces. A command is never
// broken, so that it can be copied: it gets a longer line if it must.
func wrap(out *strings.Builder, first, rest, text string) {
	indent := first
	line := ""
	text = command.ReplaceAllStringFunc(text, func(found string) string { return found[:2] + strings.ReplaceAll(found[2:], " ", unbroken) })
	for word := range strings.FieldsSeq(text) {
		word = strings.ReplaceAll(word, unbroken, " ")
		if line != "" && utf8.RuneCountInString(indent+line+" "+word) > width {
			fmt.Fprintf(out, "%s%s\n", indent, line)
			indent, line = rest, ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	fmt.Fprintf(out, "%s%s\n", indent, line)
}

func shorten(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-3]) + "..."
}

func cleanAll(texts []string) []string {
	var cleaned []string
	for _, text := range texts {
		cleaned = append(cleaned, facts.Clean(text))
	}
	return cleaned
}

// lastLines are the last lines of a log, cleaned one by one; indentation stays.
func lastLines(log string, limit int) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(log, "\n"), "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if text := facts.Clean(line); text != "" {
			lines = append(lines, strings.ReplaceAll(indent, "\t", "  ")+text)
		}
	}
	if len(lines) > limit {
		lines = lines[len(lines)-limit:]
	}
	return lines
}
