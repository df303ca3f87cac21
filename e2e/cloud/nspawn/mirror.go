package nspawn

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const aptDir = "/etc/apt"

// hostMirror is where this machine itself gets Debian packages from, by what is in apt's directory; empty when it does not
// tell.
func hostMirror(dir string) string {
	for _, name := range []string{"sources.list.d/debian.sources", "sources.list"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if mirror := findMirror(string(content)); mirror != "" {
			return mirror
		}
	}
	return ""
}

// findMirror returns the first mirror of Debian itself, not of its security updates, in either of apt's formats.
func findMirror(sources string) string {
	for line := range strings.Lines(sources) {
		field, values, isField := strings.Cut(line, ":")
		words := strings.Fields(line)
		switch {
		case isField && strings.EqualFold(strings.TrimSpace(field), "URIs"):
			words = strings.Fields(values)
		case len(words) == 0 || words[0] != "deb":
			continue
		}
		for _, word := range words {
			at, err := url.Parse(word)
			if err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != "" &&
				strings.HasSuffix(strings.TrimRight(at.Path, "/"), "/debian") {
				return word
			}
		}
	}
	return ""
}

// withoutPassword is for showing an address.
func withoutPassword(address string) string {
	if address == "" {
		return "debootstrap's own mirror"
	}
	at, err := url.Parse(address)
	if err != nil {
		return "the given mirror"
	}
	return at.Redacted()
}
