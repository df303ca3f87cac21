// Package datadir owns localkube's files on disk: the paths below one data directory, the settings
// that must survive a restart (ports, names, address ranges) and the lock that lets one process at
// a time use them.
//
// It reads and writes DATA/config.json and DATA/lock. Every other file in the directory belongs to
// the package that writes it; they all ask Dir for paths.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxRoot keeps every unix socket below the data directory within the 108
// bytes a socket address can hold.
const maxRoot = 72

// Dir is the absolute path of a data directory.
type Dir string

// Locate names a data directory that may not exist.
func Locate(path string) (Dir, error) {
	if path == "" {
		return "", errors.New("no data directory given: set --data-dir")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolving data directory: %w", err)
	}
	if len(abs) > maxRoot {
		return "", fmt.Errorf("data directory %s is %d bytes long: unix sockets below it allow at most %d", abs, len(abs), maxRoot)
	}
	return Dir(abs), nil
}

// Path joins elements below the directory.
func (d Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// Write stores a file below the directory, atomically and readable by its owner only, because most
// of localkube's files contain or lead to a credential.
func (d Dir) Write(content []byte, elem ...string) error {
	path := d.Path(elem...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making directory of %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}

// Kubeconfig is where the administrator's kubeconfig is kept.
func (d Dir) Kubeconfig() string { return d.Path("kubeconfig") }

// Log is the log file of a component.
func (d Dir) Log(component string) string { return d.Path("logs", component+".log") }

// LockedError names the process that holds a data directory.
type LockedError struct {
	Dir Dir
	PID int
}

// Error implements error.
func (e *LockedError) Error() string {
	return fmt.Sprintf("process %d already runs localkube on %s: stop it with localkube down --data-dir %[2]s", e.PID, e.Dir)
}

// Lock makes the directory and takes its lock, or returns a *LockedError. The kernel releases the
// lock when the process dies, and reports its holder.
func (d Dir) Lock() (*os.File, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("making data directory: %w", err)
	}
	file, err := os.OpenFile(d.Path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	for {
		err = unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		if err == nil {
			return file, nil
		}
		if !slices.Contains([]error{unix.EAGAIN, unix.EACCES}, err) {
			return nil, errors.Join(fmt.Errorf("locking data directory: %w", err), file.Close())
		}
		holder := unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &holder); err != nil {
			return nil, errors.Join(fmt.Errorf("asking who locks the data directory: %w", err), file.Close())
		}
		if holder.Type != unix.F_UNLCK { // otherwise the holder has just ended
			return nil, errors.Join(&LockedError{Dir: d, PID: int(holder.Pid)}, file.Close())
		}
	}
}

// Ports are picked at the first start and kept, so that a server that starts again is the same one.
type Ports struct {
	HTTPS      int `json:"httpsPort"`
	EtcdClient int `json:"etcdClientPort"`
	EtcdPeer   int `json:"etcdPeerPort"`
}

// Ports reads the directory's ports, or picks them.
func (d Dir) Ports() (Ports, error) {
	const file = "ports.json"
	var ports Ports
	raw, err := os.ReadFile(d.Path(file))
	if err == nil {
		err = json.Unmarshal(raw, &ports)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return ports, err
	}
	for _, port := range []*int{&ports.HTTPS, &ports.EtcdClient, &ports.EtcdPeer} {
		if *port, err = freePort(ports); err != nil {
			return ports, err
		}
	}
	if raw, err = json.Marshal(ports); err != nil {
		return ports, fmt.Errorf("encoding ports: %w", err)
	}
	return ports, d.Write(raw, file)
}

// freePort tries random ports below the kernel's ephemeral range, so that the
// port is not taken by an outgoing connection while the server is stopped.
func freePort(taken Ports) (int, error) {
	const low, high = 20000, 32000
	for range 100 {
		port := low + rand.IntN(high-low) //nolint:gosec // where the search begins is no secret
		if port == taken.HTTPS || port == taken.EtcdClient {
			continue
		}
		if l, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("picking a port: none free between %d and %d", low, high)
}
