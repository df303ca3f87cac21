package nspawn

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
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

// run runs the command and tells every fiftieth line of its output.
func (p *progress) run(command *exec.Cmd) error {
	output, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running %s: %w", command.Path, err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return fmt.Errorf("running %s: %w", command.Path, err)
	}
	var tail []string
	lines := bufio.NewScanner(output)
	for count := 1; lines.Scan(); count++ {
		tail = append(tail, lines.Text())
		tail = tail[max(0, len(tail)-10):]
		if count%50 == 0 {
			p.say("%s", lines.Text())
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("running %s: %w: %s", filepath.Base(command.Path), err, strings.Join(tail, "; "))
	}
	return nil
}
