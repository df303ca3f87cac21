package joblog_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/joblog"
)

// shownIn writes a text in pieces of a size, as it comes from a connection.
func shownIn(t *testing.T, text string, size int) string {
	t.Helper()
	var out strings.Builder
	writer := joblog.Harmless(&out)
	for rest := text; rest != ""; {
		piece := rest[:min(size, len(rest))]
		n, err := io.WriteString(writer, piece)
		require.NoError(t, err)
		require.Equal(t, len(piece), n)
		rest = rest[len(piece):]
	}
	return out.String()
}

func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "",
		"plain\n\ttext\r\n": "plain\n\ttext\r\n",
		"Größe, 容量, 50 €, non\u00a0break": "Größe, 容量, 50 €, non\u00a0break",
		"\x1b[31mred\x1b[0m":              "^[[31mred^[[0m",
		"\x1b]0;owned\a":                  "^[]0;owned^G",
		"\x00\x08\x7f":                    "^@^H^?",
		"\u009b31m\u0090":                 "^[[31m^[P",
		"\u0080\u009f\u00a0\u00bf":        "^[@^[_\u00a0\u00bf",
		"10%\r20%\r":                      "10%\r20%\r",
		"\xc2\n":                          "?\n",
		"\xc2\x1b[m":                      "?^[[m",
		"\xc2\xc2\u009b":                  "??^[[",
		"\xc2a":                           "?a",
	} {
		for _, size := range []int{1, 2, 3, 1000} {
			require.Equal(t, want, shownIn(t, text, size), "%q in pieces of %d", text, size)
		}
	}
}

// FuzzHarmless: no control gets through, wherever the pieces end, and text without any stays as it is.
func FuzzHarmless(f *testing.F) {
	f.Add("\x1b[31mred\u009b\x00ü", 1)
	f.Add("\xc2\xc2\x9b\xc2", 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		shown := shownIn(t, text, max(size, 1))
		require.False(t, strings.ContainsFunc(shown, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\t\r", r) }), "%q", shown)
		require.Equal(t, strings.Count(text, "\n"), strings.Count(shown, "\n"))
		if strings.ToValidUTF8(text, "") == text && !strings.ContainsFunc(text, unicode.IsControl) {
			require.Equal(t, text, shown)
		}
	})
}

func TestHarmlessTellsThatItCouldNotWrite(t *testing.T) {
	full := errors.New("no space left on device")
	n, err := io.WriteString(joblog.Harmless(writerFunc(func([]byte) (int, error) { return 0, full })), "text")
	require.Equal(t, full, err)
	require.Zero(t, n)
}
