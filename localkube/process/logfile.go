package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// rotateAt is the size from which a log file is set aside at the next start.
const rotateAt = 16 << 20

// longestTail is how much of a log's end can be read in an error message.
const longestTail = 16 << 10

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making log directory: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking at log: %w", err)
	}
	if err == nil && info.Size() > rotateAt {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("rotating log: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening log: %w", err)
	}
	return file, nil
}

// Tail returns the last lines of a log file, for an error message. The stacks
// that a program prints when it crashes are left out: the reason is before them.
func Tail(path string, lines int) string {
	const window = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > window {
		if _, err := file.Seek(-window, io.SeekEnd); err != nil {
			return ""
		}
	}
	raw, err := io.ReadAll(io.LimitReader(file, window))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(beforeStacks(string(raw))), "\n")
	last := all[max(0, len(all)-lines):]
	for i, line := range last {
		// etcd logs a stack within a line of JSON.
		if before, _, found := strings.Cut(line, `,"stacktrace":"`); found {
			last[i] = before + "}"
		}
	}
	text := strings.Join(last, "\n")
	return text[max(0, len(text)-longestTail):]
}

// beforeStacks cuts a text where the last crash in it begins to print stacks.
func beforeStacks(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(strings.TrimSpace(line), "]:") {
			return strings.Join(lines[:i], "")
		}
	}
	return text
}
