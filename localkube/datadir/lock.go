package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is the exclusive right to something named by a file. The kernel takes
// it back when the process dies, so a stale lock does not exist.
type Lock struct {
	file *os.File
}

// LockedError tells who holds a lock.
type LockedError struct {
	Path string
	PID  int
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return e.Path + " is held by a process that does not say which"
	}
	return fmt.Sprintf("%s is held by process %d", e.Path, e.PID)
}

// Lock takes the directory's lock or returns a *LockedError.
func (d Dir) Lock() (*Lock, error) { return LockFile(d.Path("lock")) }

// LockFile takes the lock named by a file or returns a *LockedError. The file
// then holds the process id.
func LockFile(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making directory of %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	err = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, errors.Join(&LockedError{Path: path, PID: holder(path)}, file.Close())
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking lock %s: %w", path, err), file.Close())
	}
	return &Lock{file: file}, nil
}

// Release gives the lock back.
func (l *Lock) Release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// Holder tells whether a process holds the directory's lock, and which; 0 is
// one that has not said so yet. It only asks: taking the lock for a moment
// could make a starting server fail.
func (d Dir) Holder() (pid int, held bool, err error) {
	path := d.Path("lock")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("opening lock: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	state := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &state); err != nil {
		return 0, false, fmt.Errorf("asking for the lock's holder: %w", err)
	}
	if state.Type == unix.F_UNLCK {
		return 0, false, nil
	}
	return holder(path), true, nil
}

// AwaitLock takes the directory's lock as soon as its holder lets go.
func (d Dir) AwaitLock(ctx context.Context) (*Lock, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := d.Lock()
		if locked := (*LockedError)(nil); !errors.As(err, &locked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func holder(path string) int {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid < 0 {
		return 0 // a negative one would stand for a group of processes
	}
	return pid
}

// Names tells whether the process that the lock's file names has that file
// open. If not, the number is another process's, as it is in a container, and
// that one must not be touched.
func (e *LockedError) Names() bool {
	want, err := os.Stat(e.Path)
	if err != nil || e.PID == 0 {
		return false
	}
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(e.PID), "fd", "*"))
	if err != nil {
		return false
	}
	for _, file := range files {
		if have, err := os.Stat(file); err == nil && os.SameFile(want, have) {
			return true
		}
	}
	return false
}
