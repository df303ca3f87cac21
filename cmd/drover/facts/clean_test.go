package facts_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/facts"
)

func TestClean(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":             {"", ""},
		"plain":               {"a plain text", "a plain text"},
		"other languages":     {"Größe, 容量, حجم", "Größe, 容量, حجم"},
		"lines":               {"one\r\ntwo\n\n\nthree\n", "one two three"},
		"spaces":              {" \t a \u00a0 b\u2003c ", "a b c"},
		"line separators":     {"a\u2028b\u2029c\u0085d", "a b c d"},
		"colours":             {"\x1b[1;31mred\x1b[0m text", "red text"},
		"a title":             {"\x1b]0;owned\x07text", "text"},
		"a link":              {"\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"},
		"the cursor":          {"a\x1b[2J\x1b[Hb\x1b[?25lc", "abc"},
		"a short escape":      {"a\x1bcb\x1bMc", "acbc"},
		"half an escape":      {"a\x1b[31", "a[31"},
		"bells and deletions": {"a\a\b\x7fb\x00c", "abc"},
		"C1 controls":         {"a\u009b31mb\u0090c", "a31mbc"},
		"turned direction":    {"exe.\u202egpj\u202c", "exe.gpj"},
		"isolates":            {"\u2066a\u2069\u200fb\u200e", "ab"},
		"of no width":         {"a\u200bb\ufeffc\u00add", "abcd"},
		"no UTF-8":            {"a\xff\xfeb", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, facts.Clean(c.text))
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m")
	f.Add("a\x1b\x1b[[31m1m")
	f.Add("\u202e\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		got := facts.Clean(text)
		require.True(t, utf8.ValidString(got))
		require.Equal(t, got, facts.Clean(got), "what is clean stays as it is")
		require.False(t, strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }), "%q", got)
		require.Equal(t, strings.TrimSpace(got), got)
		require.NotContains(t, got, "  ")
	})
}
