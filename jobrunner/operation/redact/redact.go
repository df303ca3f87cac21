package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// Mark replaces a secret.
	Mark = "[redacted]"
	// minLength: shorter values are words that are everywhere.
	minLength = 4
	// minLine is the length of the shortest line of a secret text that is redacted alone.
	minLine = 12
	// minEncoded is the length of the shortest base64 that is redacted.
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

// Add makes values secret. Values with several lines are also redacted line by line, because logs
// consist of lines. In scripts and documents, words that look like secrets are redacted, too.
func (r *Redactor) Add(values ...string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.forms == nil {
		r.forms = map[string]bool{}
	}
	for _, value := range values {
		r.addForms(strings.TrimSpace(value))
		r.addLines(value)
		// Programs print single words of scripts and documents: a shell with tracing prints neither
		// the line nor its quotes. Words are redacted in their plain form only; all forms of each
		// would be too many.
		if strings.Contains(strings.TrimSpace(value), "\n") {
			r.addWordsOf(value)
		}
		var document any
		if strings.HasPrefix(strings.TrimSpace(value), "{") && json.Unmarshal([]byte(value), &document) == nil {
			r.addTexts(document)
		}
	}
	// Longer forms are tried first, so that a secret that contains another is replaced as a whole.
	ordered := slices.SortedFunc(maps.Keys(r.forms), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(ordered))
	for _, form := range ordered {
		pairs = append(pairs, form, Mark)
	}
	r.replacer = strings.NewReplacer(pairs...)
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
	inJSON, _ := json.Marshal(value) // a text always can be
	inHex := hex.EncodeToString([]byte(value))
	forms = append(forms, strings.Trim(string(inJSON), `"`), inHex, strings.ToUpper(inHex))
	for offset := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			// Characters at both ends also depend on the neighbours, and are left out.
			encoded := encoding.EncodeToString(append(make([]byte, offset), value...))
			first, last := (offset*8+5)/6, (offset+len(value))*8/6
			if form := encoded[min(first, last):last]; len(form) >= minEncoded {
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
	// Invalid UTF-8 may be part of a secret, so that secrets are redacted both before and after it
	// is replaced.
	return []byte(r.String(strings.ToValidUTF8(r.String(string(text)), "?")))
}
