package explain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
