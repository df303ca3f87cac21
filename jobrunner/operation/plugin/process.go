package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/rpc"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	rpcdriver "github.com/rancher/machine/libmachine/drivers/rpc"
	"github.com/rancher/machine/libmachine/version"
)

const (
	startTimeout      = time.Minute // a node may be busy
	heartbeatInterval = 3 * time.Second
	closeTimeout      = 2 * time.Second
	endTimeout        = 500 * time.Millisecond
	busyTries         = 50
	busyPause         = 20 * time.Millisecond
	maxLine           = 64 << 10

	tokenVariable = "MACHINE_PLUGIN_TOKEN"
	tokenValue    = "42"
	nameVariable  = "MACHINE_PLUGIN_DRIVER_NAME"
)

// ErrUnresponsive means that the driver did not answer in time, or that its process ended.
var ErrUnresponsive = errors.New("the driver does not respond")

// Options of Start.
type Options struct {
	// Name of the driver.
	Name string
	// Path of the binary: a plugin's, or our own for a built-in driver.
	Path string
	// Env is the whole environment, without the variables of the protocol.
	Env []string
	// Dir is the working directory.
	Dir string
	// Output receives the driver's output, and the stack of its panics, from several goroutines
	// concurrently.
	Output io.Writer
}

// Process is a running driver.
type Process struct {
	command *exec.Cmd
	client  *rpc.Client
	service string
	ended   chan struct{}
	output  io.Writer
	// words may be read when the process has ended.
	words *lastWords
	// grace is how long after its connection a process may end and still count as the cause.
	grace time.Duration
	stop  context.CancelFunc
	kill  sync.Once
}

// Start runs a driver until Kill; the context bounds starting it only, so that a cancelled
// operation can still ask the driver for its record. Errors wrap ErrUnresponsive when the process
// runs but does not speak the protocol.
func Start(ctx context.Context, options Options) (*Process, error) {
	output, writer := io.Pipe()
	words := &lastWords{out: options.Output}
	command, err := begin(options, writer, words)
	// A new binary is busy until every child that was forked during its writing has started its own
	// program (go.dev/issue/22315).
	for range busyTries {
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(busyPause):
		}
		command, err = begin(options, writer, words)
	}
	if err != nil {
		return nil, fmt.Errorf("starting the driver: %w", err)
	}
	p := &Process{command: command, ended: make(chan struct{}), output: options.Output, words: words, grace: endTimeout}
	address := make(chan string, 1)
	copied := make(chan struct{})
	go func() {
		copyOutput(output, address, options.Output)
		close(copied)
	}()
	go func() {
		_ = command.Wait()
		_ = writer.CloseWithError(io.EOF)
		<-copied // at the end of the process, all of its output has been copied
		close(p.ended)
	}()
	if err := p.connect(ctx, address); err != nil {
		p.Kill()
		return nil, fmt.Errorf("starting the driver: %w", err)
	}
	return p, nil
}

// begin starts the process with where its standard output and standard error go.
func begin(options Options, stdout, stderr io.Writer) (*exec.Cmd, error) {
	command := exec.Command(options.Path)
	command.Env = slices.Concat(options.Env, []string{tokenVariable + "=" + tokenValue, nameVariable + "=" + options.Name})
	command.Dir = options.Dir
	// A process group for the driver, so that its children end with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Stdout, command.Stderr = stdout, stderr
	command.WaitDelay = closeTimeout
	return command, command.Start()
}

// copyOutput sends the first line to address and all others to out.
func copyOutput(output io.Reader, address chan<- string, out io.Writer) {
	reader := bufio.NewReaderSize(output, maxLine)
	// No more than the buffer is read in search of the line's end.
	first, err := reader.ReadSlice('\n')
	if err == nil {
		address <- strings.TrimSpace(string(first))
	} else {
		_, _ = out.Write(first)
		close(address)
	}
	_, _ = io.Copy(out, reader)
}

func (p *Process) connect(ctx context.Context, address <-chan string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("nothing within %s", startTimeout))
	defer cancel()
	var where string
	var printed bool
	select {
	case where, printed = <-address:
	case <-ctx.Done():
		return fmt.Errorf("%w: it printed no address: %w", ErrUnresponsive, context.Cause(ctx))
	}
	if !printed && p.endsNow() {
		return fmt.Errorf("%w: its process ended immediately%s", ErrUnresponsive, p.words.last)
	}
	if !isLoopback(where) {
		return fmt.Errorf("%w: its first line is not a loopback address", ErrUnresponsive)
	}
	if err := p.dial(ctx, where); err != nil {
		return err
	}
	return p.negotiate(ctx)
}

// isLoopback keeps us from talking to whomever a driver names.
func isLoopback(address string) bool {
	where, err := netip.ParseAddrPort(address)
	return err == nil && where.Addr().IsLoopback() && where.Port() != 0 && where.Addr().Zone() == ""
}

// dial bounds rpc.DialHTTP, which knows no contexts.
func (p *Process) dial(ctx context.Context, address string) error {
	type answer struct {
		client *rpc.Client
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		client, err := rpc.DialHTTP("tcp", address)
		answers <- answer{client, err}
	}()
	select {
	case got := <-answers:
		if got.err != nil {
			return fmt.Errorf("%w: %w", ErrUnresponsive, got.err)
		}
		p.client = got.client
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnresponsive, context.Cause(ctx))
	}
}

// negotiate finds the service's name, which very old plugins spell differently, and checks the
// protocol's version.
func (p *Process) negotiate(ctx context.Context) error {
	var api int
	p.service = rpcdriver.RPCServiceNameV1
	if err := p.call(ctx, rpcdriver.GetVersionMethod, struct{}{}, &api); err != nil {
		p.service = rpcdriver.RPCServiceNameV0
		if err := p.call(ctx, rpcdriver.GetVersionMethod, struct{}{}, &api); err != nil {
			return err
		}
	}
	if api != version.APIVersion {
		return fmt.Errorf("%w in a known version: it speaks version %d of the plugin protocol, not %d", ErrUnresponsive, api, version.APIVersion)
	}
	beat, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go p.heartbeat(beat)
	return nil
}

// heartbeat keeps the plugin from ending itself.
func (p *Process) heartbeat(ctx context.Context) {
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.client.Go(p.service+rpcdriver.HeartbeatMethod, struct{}{}, nil, make(chan *rpc.Call, 1))
		case <-p.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// call ends with the context, with the driver's process, or with the response. It distinguishes the
// driver's own errors from errors of the connection.
func (p *Process) call(ctx context.Context, method string, arguments, reply any) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	call := p.client.Go(p.service+method, arguments, reply, make(chan *rpc.Call, 1))
	select {
	case done := <-call.Done:
		var own rpc.ServerError
		switch {
		case done.Error == nil:
			return nil
		case errors.As(done.Error, &own):
			failed := &Error{Text: string(own)}
			if _, did := failed.panicked(); did {
				_, _ = io.WriteString(p.output, failed.Text+"\n") // which is not repeated in the error
			}
			return failed
		case !p.endsNow():
			return fmt.Errorf("%w: %w", ErrUnresponsive, done.Error)
		}
	case <-p.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: its process ended during %s%s", ErrUnresponsive, strings.TrimPrefix(method, "."), p.words.last)
}

// endsNow reports whether a connection broke because the process ended, which becomes visible a
// moment later.
func (p *Process) endsNow() bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(p.grace):
		return false
	}
}

// Kill ends the driver and all it started, and returns when all that it printed has been written;
// more than once is fine.
func (p *Process) Kill() {
	p.kill.Do(func() {
		if p.stop != nil {
			p.stop()
		}
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
		if p.client != nil {
			_ = p.client.Close()
		}
	})
	<-p.ended
}
