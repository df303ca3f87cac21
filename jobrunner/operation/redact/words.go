package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// minWord is the length of the shortest word of a text that may be a secret alone.
const minWord = 16

// ordinary words are options, variables, paths and addresses.
var ordinary = regexp.MustCompile(`^(\.?/|~|\$|-)|://`)

// Keep leaves names readable: a part of a name does not become a secret if it is a word of a text
// that is added later.
func (r *Redactor) Keep(names ...string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.kept = append(r.kept, names...)
}

// addTexts adds the texts of a JSON document, in which a key of several lines is one.
func (r *Redactor) addTexts(value any) {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "\n") {
			r.addLines(v)
		}
		r.addWordsOf(v)
	case []any:
		for _, item := range v {
			r.addTexts(item)
		}
	case map[string]any:
		for _, item := range v {
			r.addTexts(item)
		}
	}
}

func (r *Redactor) addWordsOf(text string) {
	isBetween := func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("\"'`=,;()[]{}<>", c) }
	for word := range strings.FieldsFuncSeq(text, isBetween) {
		word = strings.TrimRight(word, ":.")
		// A token, a password or a line of a key has digits and letters.
		mayBeSecret := len(word) >= minWord && !ordinary.MatchString(word) &&
			strings.ContainsFunc(word, unicode.IsDigit) && strings.ContainsFunc(word, unicode.IsLetter)
		if mayBeSecret && !slices.ContainsFunc(r.kept, func(name string) bool { return strings.Contains(name, word) }) {
			r.forms[word] = true
		}
	}
}
