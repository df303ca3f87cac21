package facts_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/facts"
)

func TestWord(t *testing.T) {
	for value, want := range map[string]string{
		"":                          "",
		"web-1":                     "web-1",
		"shop/web_1.x:y@z%1+2=3,4":  "shop/web_1.x:y@z%1+2=3,4",
		"a b":                       "'a b'",
		"it's":                      `'it'\''s'`,
		"$HOME":                     "'$HOME'",
		"~":                         "'~'",
		"*":                         "'*'",
		"ü":                         "'ü'",
		"{name}":                    "'{name}'",
		"https://x.example/d?a=1&b": "'https://x.example/d?a=1&b'",
	} {
		require.Equal(t, want, facts.Word(value))
	}
}

// TestWordIsReadBackByAShell: a shell reads a word as the value it was made of.
func TestWordIsReadBackByAShell(t *testing.T) {
	check := func(value string) {
		if value == "" || strings.ContainsRune(value, 0) {
			return
		}
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+facts.Word("x"+value)).Output()
		require.NoError(t, err)
		require.Equal(t, "x"+value, string(out))
	}
	for _, seed := range []string{"it's", "a b", "$(id)", "\n", "\\", "-n", "~", "!!", "ü", "a'b'c"} {
		check(seed)
	}
}

func TestKubectl(t *testing.T) {
	for command, want := range map[string]string{
		"drover":                "kubectl",
		"kubectl drover":        "kubectl",
		"drover --context prod": "kubectl --context prod",
		"kubectl drover --context 'a b' --user x": "kubectl --context 'a b' --user x",
	} {
		require.Equal(t, want, facts.Kubectl(command))
	}
}
