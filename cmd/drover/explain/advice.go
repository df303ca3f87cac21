package explain

import (
	"slices"
	"strings"
)

// advice is what a reason means and what to do about it. Words in braces are filled in by words.
type advice struct {
	// says completes the verdict: one sentence.
	says string
	// waits marks a reason that goes away by itself or by another part's work; others are failures.
	waits bool
	// next is what to do, best first; empty means nothing.
	next []string
}

// words are the values for the words in braces.
type words map[string]string

// fill puts the words into a text.
func (w words) fill(text string) string {
	pairs := make([]string, 0, 2*len(w))
	for name, value := range w {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// say adds an advice to the verdict and to what to do next, without repeating what was said.
func (r *Report) say(about advice, w words) {
	r.Verdict = appendNew(r.Verdict, w.fill(about.says))
	for _, next := range about.next {
		r.Next = appendNew(r.Next, w.fill(next))
	}
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
