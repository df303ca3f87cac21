package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTailBeginsWithAWholeCharacter(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short":      {" a \n", 10, "a"},
		"just right": {"0123456789", 10, "0123456789"},
		"long":       {"0123456789", 4, "…6789"},
		"umlaut":     {"aäöü", 5, "…öü"},
		"half":       {"aäöü", 3, "…ü"},
		"emoji":      {"🚀🚀", 6, "…🚀"},
		"empty":      {" \n\t", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, tail(test.text, test.limit))
		})
	}
}

func TestAgesAreNoChange(t *testing.T) {
	for name, test := range map[string]struct {
		before, after string
		same          bool
	}{
		"seconds":       {"hello-1 Running 3s", "hello-1 Running 4s", true},
		"minutes":       {"hello-1 Running 59s", "hello-1 Running 1m0s", true},
		"days":          {"hello-1 Running 1d", "hello-1 Running 2d3h", true},
		"years":         {"hello-1 Running 1y20d", "hello-1 Running 2y", true},
		"blanks":        {"hello-1   Running 3s", "hello-1 Running  3s", true},
		"phase":         {"hello-1 Pending 3s", "hello-1 Running 3s", false},
		"a number":      {"hello 0 3s", "hello 1 3s", false},
		"another one":   {"hello-1 3s", "hello-1 3s\nhello-2 3s", false},
		"a name":        {"m3s Running", "m4s Running", false},
		"a short name":  {"3d-a Running", "4d-a Running", false},
		"of an address": {"198.18.1.1 3s", "198.18.1.2 3s", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.same, withoutAges(test.before) == withoutAges(test.after))
		})
	}
}

const header = "NAME      PHASE     ADDRESS      AGE\n"

func TestMachinesRunning(t *testing.T) {
	for name, test := range map[string]struct {
		out  string
		n    int
		want bool
	}{
		"all":               {header + "hello-1   Running   198.18.1.1   3s\nhello-2   Running   198.18.1.2   3s\n", 2, true},
		"one of two":        {header + "hello-1   Running   198.18.1.1   3s\nhello-2   Creating  -            3s\n", 2, false},
		"too many":          {header + "hello-1   Running   198.18.1.1   3s\nhello-2   Running   198.18.1.2   3s\n", 1, false},
		"one more, leaving": {header + "hello-1   Running   198.18.1.1   3s\nhello-2   Deleting  198.18.1.2   3s\n", 1, false},
		"a reason":          {header + "hello-1   Creating  JobRunning   3s\n", 1, false},
		"a name":            {header + "Running-1 Creating  -            3s\n", 1, false},
		"none":              {"No machines.\n", 0, true},
		"nothing":           {"", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, machinesRunning(test.n)(test.out))
		})
	}
}

func TestQuoteIsReadBackByAShell(t *testing.T) {
	for word, want := range map[string]string{
		"drover": "drover", "--replicas": "--replicas", "a/b.c:d=e": "a/b.c:d=e", "2m": "2m", "me@host": "me@host",
		"": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "`id`": "'`id`'", "a;b": "'a;b'", "*": "'*'", "~": "'~'", "ä": "'ä'", "#": "'#'",
	} {
		require.Equal(t, want, quote(word))
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quote(word)).Output()
		require.NoError(t, err)
		require.Equal(t, word, string(out))
	}
}

func TestCommandsAreShownAsTyped(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		command []string
		want    string
	}{
		{[]string{"drover", "get"}, "drover get"},
		{[]string{"localcloud", "ls", stateDirFlag, b.CloudDir()}, "localcloud ls"},
		{[]string{"localcloud", "ls", stateDirFlag, "/elsewhere"}, "localcloud ls --state-dir /elsewhere"},
		{[]string{"localcloud", stateDirFlag}, "localcloud --state-dir"},
		{[]string{"kubectl", "apply", "-f", b.example("digitalocean.yaml")}, "kubectl apply -f examples/digitalocean.yaml"},
		{[]string{"drover", "ssh", "m", "--", "echo a b"}, "drover ssh m -- 'echo a b'"},
	} {
		require.Equal(t, test.want, b.typed(test.command))
	}
	t.Chdir(t.TempDir())
	require.Equal(t, "kubectl apply -f '"+b.dir+"/examples/digitalocean.yaml'", b.typed([]string{"kubectl", "apply", "-f", b.example("digitalocean.yaml")}))
}

func TestShowPrintsTheCommandAndItsOutput(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{"drover": `echo out; echo err >&2; [ "$1" != fail ]`})
	require.NoError(t, b.show("drover", "get", "a b")(t.Context()))
	require.EqualError(t, b.show("drover", "fail")(t.Context()), "drover fail: exit status 1")
	require.ErrorContains(t, b.show("missing")(t.Context()), "missing is not in")
	require.Equal(t, "$ drover get 'a b'\nout\nerr\n$ drover fail\nout\nerr\n$ missing\n", b.screen.String())
}

func TestShowUntilPrintsChangesOnly(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{"drover": `echo x >> asked; n=$(wc -l < asked)
case $n in 1) echo "not yet" >&2; exit 1;; 2) echo "m Creating 1s";; 3) echo "m Creating 2s";; *) echo "m Running 3s";; esac`})
	wished := func(out string) bool { return strings.Contains(out, "Running") }
	require.NoError(t, b.showUntil(time.Minute, wished, "drover", "get")(t.Context()))
	require.Equal(t, "$ drover get   # until it is so\nm Creating 1s\nm Running 3s\n", b.screen.String())
	err := b.showUntil(time.Millisecond, func(string) bool { return false }, "drover", "get")(t.Context())
	require.ErrorContains(t, err, "not ready after 1ms: ")
}

func TestDiagnosisTellsWhatCanBeHad(t *testing.T) {
	b := newBench(t)
	var log strings.Builder
	for i := range 100 {
		fmt.Fprintf(&log, "line %d of story-1\nline %d of story-2\n", i, i)
	}
	log.WriteString(strings.Repeat("x", 2<<20) + "\nlast of story-1\n") // longer than any buffer
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "manager.log"), []byte(log.String()), 0o600))
	b.programs(t, map[string]string{
		"drover": `echo "no machines"`,
		"localkube": `case "$*" in
*drover-manager*) cat manager.log;;
*events*) echo "the server is down" >&2; exit 1;;
*) echo "answer to $2 $3";;
esac`,
	})
	requireGolden(t, "diagnosis.txt", b.Diagnose(t.Context(), "story-1"))
	require.NoError(t, os.RemoveAll(b.in(shimsDir)))
	t.Setenv("PATH", "")
	require.Contains(t, b.Diagnose(t.Context(), "story-1"), "executable file not found")
}
