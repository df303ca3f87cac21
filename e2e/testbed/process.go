package testbed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// askEvery is how often something is looked at that takes a while. Most looks are a kubectl, whose
// start alone costs a third of a second of CPU time.
const askEvery = 500 * time.Millisecond

// run starts a built binary, waits for it, and puts the end of its output into the error.
func (t *Testbed) run(ctx context.Context, name string, args ...string) (string, error) {
	return t.pipe(ctx, nil, name, args...)
}

// pipe is run with standard input.
func (t *Testbed) pipe(ctx context.Context, in io.Reader, name string, args ...string) (string, error) {
	path, err := t.lookup(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = t.Env()
	cmd.Stdin = in
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(args, " "), err, tail(stderr.String()+stdout.String(), 2000))
	}
	return stdout.String(), nil
}

// daemon starts a built binary that outlives this process, its output in logs/<log>.
func (t *Testbed) daemon(log, name string, args ...string) (*os.Process, error) {
	path, err := t.lookup(name)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(t.log(log), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(path, args...)
	cmd.Env = t.Env()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return cmd.Process, nil
}

func (t *Testbed) lookup(name string) (string, error) {
	for _, dir := range []string{t.BinDir, t.in(shimsDir)} {
		path := filepath.Join(dir, name)
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s: run make build", name, t.BinDir)
}

// await asks again, every interval, until done says so or the time is up; a dead process ends the
// wait at once.
func (t *Testbed) await(ctx context.Context, limit time.Duration, process *os.Process, logName string, done func(context.Context) error) error {
	running, exited := context.WithCancel(ctx)
	defer exited()
	if process != nil {
		go func() {
			_, _ = process.Wait()
			exited()
		}()
	}
	var last error
	err := wait.PollUntilContextTimeout(running, askEvery, limit, true, func(limited context.Context) (bool, error) {
		err := done(limited)
		if last == nil || limited.Err() == nil { // one that was cut short says nothing
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("stopped waiting: %w; last: %w", ctx.Err(), last)
	case running.Err() != nil:
		return fmt.Errorf("it ended at once, its last lines:\n%s", t.lastLines(logName))
	}
	return fmt.Errorf("not ready after %s: %w\n%s", limit, last, t.lastLines(logName))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lastLines returns the last lines of a log, or nothing without a log.
func (t *Testbed) lastLines(logName string) string {
	content, err := os.ReadFile(t.log(logName))
	if err != nil {
		return ""
	}
	return tail(string(content), 3000)
}

// tail is the end of a text, without half a character at its beginning.
func tail(s string, limit int) string {
	s = strings.TrimSpace(s)
	if len(s) <= limit {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-limit:], "")
}
