package plugin

import (
	"context"
	"path"
	"strings"

	"github.com/rancher/machine/libmachine/drivers"
	rpcdriver "github.com/rancher/machine/libmachine/drivers/rpc"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
)

// maxErrorText is larger than any useful error: the text is cut after its secrets are redacted.
const maxErrorText = 1 << 20

// Error is an error that the driver returned.
type Error struct {
	// Text is the driver's own.
	Text string
}

// Error returns the driver's text; for a panic, its message and its place. It cuts a longer text
// between lines, because redaction would miss half a secret.
func (e *Error) Error() string {
	text, _ := e.panicked()
	if len(text) <= maxErrorText {
		return text
	}
	end := strings.LastIndexByte(text[:maxErrorText], '\n')
	if end < 0 {
		return "[an error of more than 1 MiB on one line was left out]"
	}
	return text[:end] + " …"
}

// panicked reduces libmachine's text of a panic to the message, and the function and line that
// panicked: the first frame below the panic that is not in Go's own packages. Other texts have no
// stack and stay unchanged.
func (e *Error) panicked() (text string, did bool) {
	words, stack, _ := strings.Cut(e.Text, "\ngoroutine ")
	if stack == "" || !strings.HasPrefix(words, "Panic in the driver: ") {
		return e.Text, false
	}
	_, below, _ := strings.Cut(stack, "\npanic(")
	lines := strings.Split(below, "\n")
	for i := 2; i+1 < len(lines); i += 2 {
		if name := lines[i]; !strings.HasPrefix(name, "runtime.") {
			file, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
			return words + " (at " + path.Base(name[:max(strings.LastIndexByte(name, '('), 0)]) + ", " + path.Base(file) + ")", true
		}
	}
	return words, true
}

// Flags asks the driver for its create flags.
func (p *Process) Flags(ctx context.Context) ([]mcnflag.Flag, error) {
	var flags []mcnflag.Flag
	err := p.call(ctx, rpcdriver.GetCreateFlagsMethod, struct{}{}, &flags)
	return flags, err
}

// Load gives the driver a record.
func (p *Process) Load(ctx context.Context, record []byte) error {
	return p.call(ctx, rpcdriver.SetConfigRawMethod, record, nil)
}

// Record asks the driver for its record; it may be asked while Create runs.
func (p *Process) Record(ctx context.Context) ([]byte, error) {
	var record []byte
	err := p.call(ctx, rpcdriver.GetConfigRawMethod, struct{}{}, &record)
	return record, err
}

// Configure gives the driver the values of its flags.
func (p *Process) Configure(ctx context.Context, values map[string]any) error {
	var options drivers.DriverOptions = rpcdriver.RPCFlags{Values: values}
	return p.call(ctx, rpcdriver.SetConfigFromFlagsMethod, &options, nil)
}

// Request is a request without arguments, whose response is only an error.
type Request string

// Requests about the server.
const (
	// Check is the driver's check before a server is made.
	Check Request = rpcdriver.PreCreateCheckMethod
	// Create makes the server.
	Create Request = rpcdriver.CreateMethod
	// Remove removes the server.
	Remove Request = rpcdriver.RemoveMethod
	// StartServer starts a server that is stopped.
	StartServer Request = rpcdriver.StartMethod
)

// Do sends a request to the driver.
func (p *Process) Do(ctx context.Context, request Request) error {
	return p.call(ctx, string(request), struct{}{}, nil)
}

// State asks for the server's state.
func (p *Process) State(ctx context.Context) (state.State, error) {
	var s state.State
	err := p.call(ctx, rpcdriver.GetStateMethod, struct{}{}, &s)
	return s, err
}

// Login is the driver's data for logging in.
type Login struct {
	Host    string
	User    string
	Port    int
	KeyPath string
}

// Login asks the driver for the login. A driver that does not know it yet leaves fields empty.
func (p *Process) Login(ctx context.Context) (Login, error) {
	var login Login
	for _, ask := range []struct {
		method string
		answer any
	}{{rpcdriver.GetSSHKeyPathMethod, &login.KeyPath}, {rpcdriver.GetSSHUsernameMethod, &login.User}, {rpcdriver.GetSSHPortMethod, &login.Port}, {rpcdriver.GetSSHHostnameMethod, &login.Host}} {
		if err := p.call(ctx, ask.method, struct{}{}, ask.answer); err != nil {
			return login, err
		}
	}
	return login, nil
}
