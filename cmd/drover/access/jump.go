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
	here, there := net.Pipe()
	command := exec.Command("ssh", append(args, "--", "ssh://"+last)...)
	command.Stdout, command.Stderr = there, j.ErrOut
	command.WaitDelay = time.Second // what it has started may hold its output
	stdin, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("connecting through %s: starting OpenSSH's ssh: %w", j.Hosts, err)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(stdin, there)
		_ = stdin.Close()
	}()
	go func() {
		_ = command.Wait() // why it ended, it has said itself
		_ = there.Close()
		close(ended)
	}()
	return &jumpConn{Conn: here, process: command.Process, ended: ended}, nil
}

// jumpConn is a connection over the input and output of a process.
type jumpConn struct {
	net.Conn

	process *os.Process
	ended   <-chan struct{}
}

// Close ends the process, and waits until it has; the SSH library closes from several goroutines.
func (c *jumpConn) Close() error {
	err := c.Conn.Close()
	if killed := c.process.Kill(); killed != nil && !errors.Is(killed, os.ErrProcessDone) {
		err = errors.Join(err, killed)
	}
	<-c.ended
	return err
}
