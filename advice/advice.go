// Package advice returns the actions that a user can take about a condition, by its reason:
// commands to copy, best first. The manager writes them into the condition's message, where kubectl
// and drover why show them. The package is data and text, and reads nothing.
package advice

import (
	"regexp"
	"slices"
	"strings"
)

// bullet begins a line of advice in a message, as in Cluster API's own.
const bullet = "\n* "

// Message joins a condition's message from the problem and the advice. Text from drivers and clouds
// cannot pass for advice.
func Message(what string, next []string) string {
	return strings.Join(append([]string{strings.ReplaceAll(what, bullet, " ")}, next...), bullet)
}

// Split splits a message into the problem and the advice.
func Split(message string) (what string, next []string) {
	parts := strings.Split(message, bullet)
	return parts[0], parts[1:]
}

// Words are the values for the words in braces of a text. An unknown word is shown in capitals.
type Words map[string]string

// optional are the words of objects that may not exist: Fill leaves out a text that names a missing
// one. A machine has a template or is edited directly, and a Machine has a MachineDeployment or
// not, so that one of each two is empty. Many conditions of a control plane concern no machine and
// no object in particular.
var optional = []string{"job", "pod", "node", "template", "itself", "machine", "deployment", "lone", "infra", "kind", "secret", "configmap", "other", "endpoint", "auth", "tls", "running"}

var (
	braces = regexp.MustCompile(`\{[a-z]+\}`)
	// harmless matches a value without special characters for a shell.
	harmless = regexp.MustCompile(`^[a-zA-Z0-9_@%+=:,./-]+$`)
	// unshown matches a value that is not shown even in quotes: it is empty, or contains a quote, a
	// space or a character that unicode.IsPrint rejects.
	unshown = regexp.MustCompile(`^$|'|[^\pL\pM\pN\pP\pS]`)
)

// Fill puts the values into texts, and leaves out texts that name a missing object. Users copy
// these commands into their shell, and any user with the right to create machines can write
// arbitrary text into some fields. Each value is therefore one word for a shell, without a space or
// quote that could turn it into a command. The value of the word "where" is prose.
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
