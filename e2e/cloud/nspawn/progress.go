package nspawn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	tailLines = 10
	tellEvery = 50
	// maxLine is how much of a line is kept; the rest of it is dropped.
	maxLine = 500
)

// progress tells what is done, and keeps the last lines of a command for its error.
type progress struct {
	to    io.Writer
	start time.Time
}

func newProgress(to io.Writer) *progress {
	if to == nil {
		to = io.Discard
	}
	return &progress{to: to, start: time.Now()}
}

func (p *progress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.to, "%5.0fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// run runs the command and tells every fiftieth line of its output. When its
// context ends, all that it started ends with it.
func (p *progress) run(command *exec.Cmd) error {
	name := filepath.Base(command.Path)
	output, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	command.Stderr = command.Stdout
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if err := command.Start(); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	tail := p.follow(output)
	if err := command.Wait(); err != nil {
		return fmt.Errorf("running %s: %w: %s", name, err, strings.Join(tail, "; "))
	}
	return nil
}

// follow reads to the end and returns the last lines.
func (p *progress) follow(output io.Reader) (tail []string) {
	lines := bufio.NewReader(output)
	for count := 1; ; count++ {
		line, err := readLine(lines)
		if line != "" || err == nil {
			tail = append(tail, line)
			tail = tail[max(0, len(tail)-tailLines):]
		}
		if err != nil {
			return tail
		}
		if count%tellEvery == 0 {
			p.say("%s", line)
		}
	}
}

// readLine returns the beginning of the next line; how long it is does not matter.
func readLine(from *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxLine-min(maxLine, len(line)))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(string(line), "\r\n"), err
		}
	}
}
