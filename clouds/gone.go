package clouds

import (
	"slices"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// gonePhrases are how drivers say that a server does not exist.
var gonePhrases = []string{"not found", "notfound", "not_found", "does not exist", "doesn't exist", "no longer exists", "could not be found",
	"no such instance"}

// elsewhere are words for another missing resource: the server's existence is then unknown.
var elsewhere = []string{"executable file not found", "command not found", "credentials", "host not found", "profile not found"}

// IsGone reports whether a driver's error means that the server does not exist. If Drover took an
// existing server for gone, it would lose it. A text with another possible meaning, such as a
// missing subscription or data centre, therefore does not count.
func (c Cloud) IsGone(text string) bool {
	if containsAny(strings.ToLower(text), panicked) || c.Classify(text) == rkev1.ClassUnauthorized {
		return false
	}
	text = plain(text)
	if proxyRejects.MatchString(text) || containsAny(text, slices.Concat(elsewhere, c.words.elsewhere)) {
		return false
	}
	gone := containsAny(text, slices.Concat(gonePhrases, c.words.gone))
	if c.words.resource != "" && strings.Contains(text, c.words.resource) {
		return gone && strings.Contains(text, c.words.server)
	}
	return gone || slices.Contains([]string{"404", "410"}, statusOf(text))
}

// NameTaken reports whether the cloud rejected the server because another server has its name.
func (c Cloud) NameTaken(text string) bool {
	text = plain(text)
	return slices.ContainsFunc(c.words.taken, func(all []string) bool {
		return !slices.ContainsFunc(all, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// NothingMade reports whether an error of this class means that the cloud rejected the request. The
// text shows whether the cloud had accepted it before.
func (c Cloud) NothingMade(class, text string) bool {
	if c.words.unsure || containsAny(plain(text), c.words.afterRequest) {
		return false
	}
	switch class {
	case rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled:
		return true
	}
	return false
}
