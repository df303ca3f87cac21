package explain

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/cmd/drover/facts"
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

// objectWords are those of objects that may not be there: advice that names one of them is given only when it is. A machine has a template or is
// edited itself, so that one of the two words is empty.
var objectWords = []string{"job", "pod", "node", "template", "itself"}

// lacks reports whether a text needs a word of an object that is not there.
func (w words) lacks(text string) bool {
	return slices.ContainsFunc(objectWords, func(name string) bool {
		return w[name] == "" && strings.Contains(text, "{"+name+"}")
	})
}

// commandWord may be several words for a shell; whereWord is prose.
const (
	commandWord = "cmd"
	whereWord   = "where"
)

// fill puts the words into a text. People copy commands from it into their shell, so that each value stays one word there:
// some come from fields in which anybody who may make a machine can write anything.
func (w words) fill(text string) string {
	// kubectl must not reach another cluster than we do: an advice may be to delete something.
	pairs := []string{"kubectl ", facts.Kubectl(w[commandWord]) + " "}
	for name, value := range w {
		if name != commandWord && name != whereWord {
			value = facts.Word(clean(value))
		}
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// say adds an advice to the verdict and to what to do next, without repeating what was said.
func (r *Report) say(about advice, w words) {
	r.Verdict = appendNew(r.Verdict, w.fill(about.says))
	for _, next := range about.next {
		if !w.lacks(next) {
			r.Next = appendNew(r.Next, w.fill(next))
		}
	}
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
