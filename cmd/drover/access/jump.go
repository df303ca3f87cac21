package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/sshkeys"
)

// Jump is the way to a server over other hosts, as OpenSSH's ProxyJump has it: [USER@]HOST[:PORT], several with commas between. The
// user's own ssh goes it (ssh -W, see ssh(1)), with his configuration, keys, agent and known hosts: of those hosts Drover knows nothing.
type Jump struct {
	Hosts string
	// ErrOut is told what that ssh says.
	ErrOut io.Writer
}

var _ sshkeys.Dialer = Jump{}

// jumpHost is one of the hosts. It is an argument of ssh's and a value of ssh_config: nothing in it may mean anything else.
var jumpHost = regexp.MustCompile(`^([\pL\pN_][\pL\pN_.+-]*@)?([\pL\pN_][\pL\pN_.-]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?$`)

// Check tells what is wrong with the hosts.
func (j Jump) Check() error {
	for host := range strings.SplitSeq(j.Hosts, ",") {
		if !jumpHost.MatchString(host) {
			return fmt.Errorf("the jump host %q is not [USER@]HOST[:PORT]", host)
		}
	}
	return nil
}

// DialContext connects through the hosts. An error is that of starting ssh; why ssh then ends, it tells itself.
func (j Jump) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	if err := j.Check(); err != nil {
		return nil, err
	}
	last, before := j.Hosts, ""
	if i := strings.LastIndexByte(j.Hosts, ','); i >= 0 {
		before, last = j.Hosts[:i], j.Hosts[i+1:]
	}
	args := []string{"-W", address}
	if before != "" {
		args = append(args, "-J", before)
	}
	// The context bounds the login; the process lives as long as the connection does.
	command := exec.Command("ssh", append(args, "--", "ssh://"+last)...)
	command.Stderr = j.ErrOut
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting through %s: %w", j.Hosts, err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting through %s: %w", j.Hosts, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("connecting through %s: starting OpenSSH's ssh: %w", j.Hosts, err)
	}
	return &jumpConn{Reader: stdout, WriteCloser: stdin, command: command}, nil
}

// jumpConn is a connection over the pipes of a process.
type jumpConn struct {
	io.Reader
	io.WriteCloser

	command *exec.Cmd
	once    sync.Once
	err     error
}

// Close ends the process. The SSH library closes from several goroutines, and a process is waited for once.
func (c *jumpConn) Close() error {
	c.once.Do(func() {
		c.err = c.WriteCloser.Close()
		if killed := c.command.Process.Kill(); killed != nil && !errors.Is(killed, os.ErrProcessDone) {
			c.err = errors.Join(c.err, killed)
		}
		_ = c.command.Wait() // it was killed
	})
	return c.err
}

// LocalAddr implements net.Conn: a pipe has no address.
func (*jumpConn) LocalAddr() net.Addr { return &net.UnixAddr{} }

// RemoteAddr implements net.Conn.
func (*jumpConn) RemoteAddr() net.Addr { return &net.UnixAddr{} }

// SetDeadline implements net.Conn; the SSH library does without.
func (*jumpConn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn.
func (*jumpConn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn.
func (*jumpConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
