package facts_test

import (
	"io"
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

// onTerminal writes a text in pieces of a size, as it comes from a connection.
func onTerminal(t *testing.T, text string, size int) string {
	t.Helper()
	var out strings.Builder
	terminal := &facts.Terminal{Out: &out}
	for rest := text; rest != ""; {
		piece := rest[:min(size, len(rest))]
		n, err := io.WriteString(terminal, piece)
		require.NoError(t, err)
		require.Equal(t, len(piece), n)
		rest = rest[len(piece):]
	}
	require.NoError(t, terminal.Flush())
	return out.String()
}

func TestTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"plain\n\ttext  wide\r\n\nend":    "plain\n\ttext  wide\n\nend",
		"Größe, 容量, 50 €\n":               "Größe, 容量, 50 €\n",
		"\x1b[31mred\x1b[0m\n":            "red\n",
		"\x1b]0;owned\atitle":             "title",
		"\u009b31m\u0090 C1":              "31m C1",
		"10%\rhidden\n":                   "10% hidden\n",
		"turned \u202egpj\u202c\xc2\xff.": "turned gpj.",
	} {
		for _, size := range []int{1, 2, 3, 1000} {
			require.Equal(t, want, onTerminal(t, text, size), "%q in pieces of %d", text, size)
		}
	}
	long := strings.Repeat("x", 200_000)
	require.Equal(t, long, onTerminal(t, long, 4096), "a line without an end")
}

// FuzzTerminal: no control gets through, wherever the pieces end, and no line is lost.
func FuzzTerminal(f *testing.F) {
	f.Add("\x1b[31mred\u009b\x00ü\n", 1)
	f.Add("\xc2\xc2\x9b\xc2", 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		shown := onTerminal(t, text, max(size, 1))
		require.False(t, strings.ContainsFunc(shown, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r)
		}), "%q", shown)
		require.Equal(t, strings.Count(text, "\n"), strings.Count(shown, "\n"))
	})
}
