package pattern

import (
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compiled returns the number of instructions that a pattern really compiles to.
func compiled(t *testing.T, text string) int {
	t.Helper()
	parsed, err := syntax.Parse(text, syntax.Perl)
	require.NoError(t, err)
	program, err := syntax.Compile(parsed.Simplify())
	require.NoError(t, err)
	return len(program.Inst)
}

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"^library/(.*)":                 "",
		"^(.*)$":                        "",
		"^.{1,253}$":                    "",
		"(":                             "is not a valid regular expression",
		"a{1001}":                       "is not a valid regular expression",
		strings.Repeat("a", MaxBytes):   "",
		strings.Repeat("a", MaxBytes+1): "has more than 256 bytes",
		"^(?:" + strings.Repeat("a", 200) + "){1000}$":    "compiles to more than 2000 instructions: repeat less",
		"^(?:" + strings.Repeat("a?", 100) + "){0,1000}$": "compiles to more than 2000 instructions: repeat less",
		"^(?:" + strings.Repeat("(a?)", 50) + "){1000}$":  "compiles to more than 2000 instructions: repeat less",
		"^.{0,1000}.{0,1000}.{0,1000}$":                   "compiles to more than 2000 instructions: repeat less",
		"(?i)a":                                           "has the flag i, which is not supported: write both cases, such as [Aa]",
		"(?sU-i:a)":                                       "has the flag i, which is not supported: write both cases, such as [Aa]",
		"x(?mi)[B-\U0001e943]":                            "has the flag i, which is not supported: write both cases, such as [Aa]",
		"(?P<name>a)(?s)b(?:i)":                           "",
	} {
		size, err := Check(text)
		if want != "" {
			require.EqualError(t, err, want, "%.80q", text)
			continue
		}
		require.NoError(t, err, "%.80q", text)
		require.GreaterOrEqual(t, size, compiled(t, text), "%.80q", text)
		require.LessOrEqual(t, size, 3*compiled(t, text), "%.80q: the estimate is near the truth", text)
	}
}

// Check must not compile: each of these patterns needs 10 MB or more to be compiled.
func TestCheck_memory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		for _, text := range []string{"(?:" + strings.Repeat("a", 3000) + "){1000}", "(?:" + strings.Repeat("a", 240) + "){1000}"} {
			_, err := Check(text)
			require.Error(t, err)
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// FuzzCheck compares the estimate with the real program: it is never smaller.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{"", "^library/(.*)", "(a*)*", "(a*){0,}", "(?:a|b?|){3,7}", "((a?){2}){3,}", `[^\d-z]+?x`, `\bé*?$`, "(|)", "(?:){5}", "a{0}", "[^\\x00-\\x{10FFFF}]", "(?s-U).+|^"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := Check(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, size, MaxInstructions)
		require.GreaterOrEqual(t, size, compiled(t, text))
	})
}
