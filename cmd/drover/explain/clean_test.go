package explain

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
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
			require.Equal(t, c.want, clean(c.text))
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m")
	f.Add("a\x1b\x1b[[31m1m")
	f.Add("\u202e\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		got := clean(text)
		require.True(t, utf8.ValidString(got))
		require.Equal(t, got, clean(got), "what is clean stays as it is")
		require.False(t, strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }), "%q", got)
		require.Equal(t, strings.TrimSpace(got), got)
		require.NotContains(t, got, "  ")
	})
}

func TestCleanAll(t *testing.T) {
	require.Nil(t, cleanAll(nil))
	require.Equal(t, []string{"a b", "c"}, cleanAll([]string{"a\nb", "\x1b[1mc"}))
}

func TestLastLines(t *testing.T) {
	for name, c := range map[string]struct {
		log   string
		limit int
		want  []string
	}{
		"nothing":         {"", 3, nil},
		"empty lines":     {"\n\n\n", 3, nil},
		"one":             {"one", 3, []string{"one"}},
		"as many":         {"one\ntwo\nthree\n", 3, []string{"one", "two", "three"}},
		"more":            {"one\ntwo\nthree\nfour\n", 3, []string{"two", "three", "four"}},
		"gaps":            {"one\n\n \t\ntwo\n\n", 3, []string{"one", "two"}},
		"indentation":     {"one\n  two\n\tthree\n \t four\n", 4, []string{"one", "  two", "  three", "    four"}},
		"a progress bar":  {"10%\r50%\r100%\ndone\n", 3, []string{"10% 50% 100%", "done"}},
		"colours":         {"\x1b[32mok\x1b[0m\n\x1b[0m\n", 3, []string{"ok"}},
		"windows' lines":  {"one\r\ntwo\r\n", 3, []string{"one", "two"}},
		"only the newest": {strings.Repeat("old\n", 10000) + "new", 1, []string{"new"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, lastLines(c.log, c.limit))
		})
	}
}
