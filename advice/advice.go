// Package advice is what the user can do about a condition, by its reason: commands to copy, best first. The manager writes it into the
// condition's message, where kubectl shows it, and drover why shows it from there. It is data and text, and reads nothing.
package advice

import (
	"regexp"
	"slices"
	"strings"
)

// bullet begins a line of advice in a message, as in Cluster API's own.
const bullet = "\n* "

// Message is a condition's message: what is so, and what to do about it. What comes from drivers and clouds cannot pass for advice.
func Message(what string, next []string) string {
	return strings.Join(append([]string{strings.ReplaceAll(what, bullet, " ")}, next...), bullet)
}

// Split takes a message apart.
func Split(message string) (what string, next []string) {
	parts := strings.Split(message, bullet)
	return parts[0], parts[1:]
}

// Words are values for the words in braces of a text. One that is not known stands for itself, in capitals.
type Words map[string]string

// optional are the words of objects that may not be there: a text that names one of them is left out then. A machine has a template or is
// edited itself, and a Machine has a MachineDeployment or is a lone one, so that one of each two is empty; many conditions of a control plane are about no
// machine and no object in particular.
var optional = []string{"job", "pod", "node", "template", "itself", "machine", "deployment", "lone", "infra", "kind", "secret", "configmap", "other", "endpoint"}

var (
	braces = regexp.MustCompile(`\{[a-z]+\}`)
	// harmless is a value that means nothing to a shell.
	harmless = regexp.MustCompile(`^[a-zA-Z0-9_@%+=:,./-]+$`)
	// unshown is one that is not shown, quoted neither: it is empty, or has a quote, a space or what unicode.IsPrint does not know.
	unshown = regexp.MustCompile(`^$|'|[^\pL\pM\pN\pP\pS]`)
)

// Fill puts the values into texts, and leaves those out that name what is not there. People copy commands from them into their shell, and
// anybody who may make a machine can write anything into some fields: each value is one word for a shell, and has no space or quote that
// would let it pass for a command. Of the word "where" the value is prose.
func (w Words) Fill(texts ...string) []string {
	var filled []string
	for _, text := range texts {
		lacks := func(name string) bool { return w[name] == "" && strings.Contains(text, "{"+name+"}") }
		if slices.ContainsFunc(optional, lacks) {
			continue
		}
		filled = append(filled, braces.ReplaceAllStringFunc(text, func(braced string) string {
			name := strings.Trim(braced, "{}")
			value := w[name]
			switch {
			case name == "where" || harmless.MatchString(value):
				return value
			case unshown.MatchString(value):
				return strings.ToUpper(name)
			}
			return "'" + value + "'"
		}))
	}
	return filled
}
