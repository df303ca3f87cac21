package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// Mark stands where a secret stood.
	Mark = "[redacted]"
	// minLength: shorter values are words that are everywhere.
	minLength = 4
	// minLine is the shortest line of a secret text that is looked for by itself.
	minLine = 12
	// minEncoded is the shortest base64 that is looked for.
	minEncoded = 6
)

// inXML is the other way to write a text in XML; html.EscapeString is the first.
var inXML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")

// escapes of URLs, which some programs write in small letters.
var escapes = regexp.MustCompile(`%[0-9A-F]{2}`)

// Redactor knows secrets. Its zero value is ready for use, also by several goroutines at once.
type Redactor struct {
	mutex    sync.RWMutex
	forms    map[string]bool
	kept     []string
	replacer *strings.Replacer
}

// Add makes values secret. Values with several lines are found line by line too, for logs are written in lines, and of scripts and
// documents also words that look like secrets.
func (r *Redactor) Add(values ...string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.forms == nil {
		r.forms = map[string]bool{}
	}
	for _, value := range values {
		r.addForms(strings.TrimSpace(value))
		r.addLines(value)
		r.addWords(value)
	}
	r.replacer = newReplacer(r.forms)
}

func (r *Redactor) addLines(text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) >= minLine {
			r.addForms(line)
		}
	}
}

func (r *Redactor) addForms(value string) {
	if len(value) < minLength {
		return
	}
	user := strings.TrimPrefix(url.UserPassword("", value).String(), ":")
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value), user, strings.Trim(strconv.Quote(value), `"`)}
	forms = append(forms, html.EscapeString(value), inXML.Replace(value), strings.ToValidUTF8(value, "?"), strings.ToValidUTF8(value, "\uFFFD"))
	for _, escaped := range forms[1:4] {
		forms = append(forms, escapes.ReplaceAllStringFunc(escaped, strings.ToLower))
	}
	if encoded, err := json.Marshal(value); err == nil {
		forms = append(forms, strings.Trim(string(encoded), `"`))
	}
	inHex := hex.EncodeToString([]byte(value))
	forms = append(forms, inHex, strings.ToUpper(inHex))
	for offset := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if form := encodedAt(encoding, offset, value); len(form) >= minEncoded {
				forms = append(forms, form)
			}
		}
	}
	for _, form := range forms {
		if len(form) >= minLength {
			r.forms[form] = true
		}
	}
}

// encodedAt is what base64 always makes of value when offset bytes stand before it: characters at both ends also depend on
// the neighbours and are left out.
func encodedAt(encoding *base64.Encoding, offset int, value string) string {
	encoded := encoding.EncodeToString(append(make([]byte, offset), value...))
	first := (offset*8 + 5) / 6
	last := (offset + len(value)) * 8 / 6
	return encoded[min(first, last):last]
}

// newReplacer tries longer forms first, so that a secret that contains another is replaced as a whole.
func newReplacer(forms map[string]bool) *strings.Replacer {
	ordered := make([]string, 0, len(forms))
	for form := range forms {
		ordered = append(ordered, form)
	}
	slices.SortFunc(ordered, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(ordered))
	for _, form := range ordered {
		pairs = append(pairs, form, Mark)
	}
	return strings.NewReplacer(pairs...)
}

// String returns text without the secrets.
func (r *Redactor) String(text string) string {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.replacer == nil {
		return text
	}
	return r.replacer.Replace(text)
}

// Bytes returns text without the secrets.
func (r *Redactor) Bytes(text []byte) []byte {
	// What is no text may be part of a secret, so that it is looked for both before and after it is replaced.
	return []byte(r.String(strings.ToValidUTF8(r.String(string(text)), "?")))
}
