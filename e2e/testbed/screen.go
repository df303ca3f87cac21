package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const stateDirFlag = "--state-dir"

var (
	// age matches a duration in a table, such as 45s, 2d3h or 3m10s, but not a bare number.
	age = regexp.MustCompile(`^([0-9.]+(y|d|h|m|s|ms))+$`)
	// plain needs no quotes in a shell.
	plain = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)
)

// example is the path of a file in examples/.
func (t *Testbed) example(name string) string {
	return filepath.Join(filepath.Dir(t.BinDir), "examples", name)
}

func (t *Testbed) headline(text string) { t.say("\n\033[1m== %s\033[0m\n", text) }

// say writes to the screen; that it may be gone stops nothing.
func (t *Testbed) say(format string, args ...any) { _, _ = fmt.Fprintf(t.Out, format, args...) }

// show prints a command as a user would type it, and its output.
func (t *Testbed) show(command ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		t.say("$ %s\n", t.typed(command))
		path, err := t.lookup(command[0])
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, path, command[1:]...)
		cmd.Env, cmd.Stdout, cmd.Stderr = t.Env(), t.Out, t.Out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", t.typed(command), err)
		}
		return nil
	}
}

// showUntil runs a command until its output is as wished, and prints the output when it changes.
func (t *Testbed) showUntil(limit time.Duration, wished func(string) bool, command ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		t.say("$ %s   # until it is so\n", t.typed(command))
		seen := map[string]bool{}
		return t.await(ctx, limit, nil, "", func(ctx context.Context) error {
			out, err := t.run(ctx, command[0], command[1:]...)
			if err != nil {
				return err
			}
			if state := withoutAges(out); !seen[state] {
				seen[state] = true
				t.say("%s", out)
			}
			if !wished(out) {
				return errors.New("last seen:\n" + out)
			}
			return nil
		})
	}
}

// withoutAges drops the values that change with time alone.
func withoutAges(table string) string {
	var kept []string
	for field := range strings.FieldsSeq(table) {
		if !age.MatchString(field) {
			kept = append(kept, field)
		}
	}
	return strings.Join(kept, " ")
}

// typed is a command as a user would type it in the project's directory, where the state directory
// is the usual one.
func (t *Testbed) typed(command []string) string {
	var words []string
	for i := 0; i < len(command); i++ {
		if command[i] == stateDirFlag && i+1 < len(command) && command[i+1] == t.CloudDir() {
			i++
			continue
		}
		words = append(words, quote(t.readable(command[i])))
	}
	return strings.Join(words, " ")
}

// readable is a path seen from where we are, if it is below.
func (t *Testbed) readable(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	return strings.TrimPrefix(path, here+"/")
}

// quote makes a shell take any text as one word.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
