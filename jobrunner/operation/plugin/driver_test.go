package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rancher/machine/libmachine/drivers"
	libplugin "github.com/rancher/machine/libmachine/drivers/plugin"
	rpcdriver "github.com/rancher/machine/libmachine/drivers/rpc"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/plugin"
)

// serves tells this binary, run as a driver, which kind of driver to be; the zero value is one built with libmachine.
const serves = "TEST_SERVES"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv("TEST_CHILD_OF_DRIVER") != "":
		holdConnection(os.Getenv("TEST_CHILD_OF_DRIVER"))
	case os.Getenv("MACHINE_PLUGIN_TOKEN") == "42":
		serve(os.Getenv(serves))
	default:
		os.Exit(m.Run())
	}
}

func serve(kind string) {
	d := &obedient{BaseDriver: &drivers.BaseDriver{}, Name: os.Getenv("MACHINE_PLUGIN_DRIVER_NAME")}
	switch kind {
	case "":
		libplugin.RegisterDriver(d)
	case "ours":
		if err := plugin.Serve(d, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
		}
	case "old name":
		serveAs(rpcdriver.RPCServiceNameV0, rpcdriver.NewRPCServerDriver(d))
	case "other version":
		serveAs(rpcdriver.RPCServiceNameV1, future{})
	case "other service":
		serveAs("SomethingElse", future{})
	}
}

// serveAs serves until it is killed.
func serveAs(name string, service any) {
	registry := rpc.NewServer()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil || registry.RegisterName(name, service) != nil {
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	mux := http.NewServeMux()
	mux.Handle(rpc.DefaultRPCPath, registry)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	_ = server.Serve(listener)
}

// future is a driver of a protocol that nobody knows yet.
type future struct{}

// GetVersion is the only method.
func (future) GetVersion(_ *struct{}, reply *int) error { *reply = 99; return nil }

// holdConnection is what a driver's child does for as long as it lives.
func holdConnection(address string) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, connection)
}

// obedient is a driver that does what its record says.
type obedient struct {
	*drivers.BaseDriver
	Name   string
	Do     string
	Where  string
	Server string
	Given  []string
}

func (d *obedient) DriverName() string { return "obedient" }

func (d *obedient) GetCreateFlags() []mcnflag.Flag {
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "x-text", Usage: "a text", EnvVar: "X_TEXT", Value: "ü"}, mcnflag.IntFlag{Name: "x-number", Value: 3},
		mcnflag.BoolFlag{Name: "x-truth"}, mcnflag.StringSliceFlag{Name: "x-list", Value: []string{"a", "b"}},
	}
}

func (d *obedient) SetConfigFromFlags(o drivers.DriverOptions) error {
	if d.Do == "refuse" {
		return errors.New("x requires the --x-text option")
	}
	d.Given = []string{fmt.Sprintf("%q %d %t %q", o.String("x-text"), o.Int("x-number"), o.Bool("x-truth"), o.StringSlice("x-list"))}
	return nil
}

func (d *obedient) PreCreateCheck() error { return d.act() }
func (d *obedient) Create() error         { return d.act() }
func (d *obedient) Remove() error         { return d.act() }
func (d *obedient) Start() error          { return d.act() }
func (d *obedient) Stop() error           { return d.act() }
func (d *obedient) Kill() error           { return d.act() }
func (d *obedient) Restart() error        { return d.act() }

func (d *obedient) GetURL() (string, error)         { return "", nil }
func (d *obedient) GetSSHHostname() (string, error) { return d.IPAddress, d.act() }

func (d *obedient) GetState() (state.State, error) {
	if err := d.act(); err != nil {
		return state.Error, err
	}
	return state.Stopped, nil
}

func (d *obedient) act() error {
	what, detail, _ := strings.Cut(d.Do, " ")
	switch what {
	case "fail":
		return errors.New(detail)
	case "panic":
		var nobody *obedient
		return errors.New(nobody.Name)
	case "panic-text":
		panic("no error, but a text")
	case "panic-aside":
		go panic(errors.New("nobody recovers this\nwhatever else it says"))
		select {}
	case "panic-long":
		panic(strings.Repeat("x", 1<<20))
	case "exit":
		os.Exit(7)
	case "print":
		fmt.Println("to stdout: " + detail)
		_, _ = fmt.Fprintln(os.Stderr, "to stderr: "+detail)
	case "chatter":
		for i := range chatter {
			fmt.Printf("line %d of %s\n", i, detail)
		}
		return errors.New(detail)
	case "wait":
		d.Server = "srv-1"
		holdConnection(detail)
	case "fork":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "TEST_CHILD_OF_DRIVER="+detail)
		return child.Start()
	case "environment":
		d.Given = slices.Sorted(slices.Values(os.Environ()))
	}
	return nil
}

// chatter is how many lines a driver prints that likes to talk; more than a pipe holds.
const chatter = 20000

type output struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.String()
}

func tryStart(t *testing.T, kind string) (*plugin.Process, *output, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	out := &output{}
	p, err := plugin.Start(t.Context(), plugin.Options{
		Name: "x", Path: self, Env: []string{serves + "=" + kind, "HOME=" + t.TempDir()}, Dir: t.TempDir(), Output: out,
	})
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return p, out, err
}

func start(t *testing.T, kind string) (*plugin.Process, *output) {
	t.Helper()
	p, out, err := tryStart(t, kind)
	require.NoError(t, err)
	return p, out
}

// order makes the driver do something from now on.
func order(t *testing.T, p *plugin.Process, what string) {
	t.Helper()
	record, err := json.Marshal(map[string]any{"Do": what, "IPAddress": "198.18.0.1", "SSHUser": "core", "SSHPort": 2022, "SSHKeyPath": "/x/id_rsa"})
	require.NoError(t, err)
	require.NoError(t, p.Load(t.Context(), record))
}

func recorded(t *testing.T, p *plugin.Process) (d obedient) {
	t.Helper()
	d.BaseDriver = &drivers.BaseDriver{}
	raw, err := p.Record(t.Context())
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &d))
	return d
}

// TestProcess_speaks_to_every_kind: drivers built with libmachine, ours, and very old ones that spell the service otherwise.
func TestProcess_speaks_to_every_kind(t *testing.T) {
	for _, kind := range []string{"", "ours", "old name"} {
		t.Run("serves "+kind, func(t *testing.T) {
			p, _ := start(t, kind)
			flags, err := p.Flags(t.Context())
			require.NoError(t, err)
			require.Equal(t, []mcnflag.Flag{
				&mcnflag.StringFlag{Name: "x-text", Usage: "a text", EnvVar: "X_TEXT", Value: "ü"}, &mcnflag.IntFlag{Name: "x-number", Value: 3},
				&mcnflag.BoolFlag{Name: "x-truth"}, &mcnflag.StringSliceFlag{Name: "x-list", Value: []string{"a", "b"}},
			}, flags)
			require.NoError(t, p.Configure(t.Context(), map[string]any{"x-text": "ü\n", "x-number": -1, "x-truth": true, "x-list": []string{"", "c,d"}}))
			require.Equal(t, []string{`"ü\n" -1 true ["" "c,d"]`}, recorded(t, p).Given, "every type arrives as it was given")
			require.Equal(t, "x", recorded(t, p).Name, "the driver is told which one it is to be")

			order(t, p, "nothing")
			for _, request := range []plugin.Request{plugin.Check, plugin.Create, plugin.StartServer, plugin.Remove} {
				require.NoError(t, p.Do(t.Context(), request))
			}
			current, err := p.State(t.Context())
			require.NoError(t, err)
			require.Equal(t, state.Stopped, current)
			login, err := p.Login(t.Context())
			require.NoError(t, err)
			require.Equal(t, plugin.Login{Host: "198.18.0.1", User: "core", Port: 2022, KeyPath: "/x/id_rsa"}, login)
		})
	}
}

// TestProcess_errors: the driver's own words come through unchanged, and apart from those of the connection.
func TestProcess_errors(t *testing.T) {
	p, _ := start(t, "ours")
	for name, text := range map[string]string{
		"words": "it did not work", "several lines": "a\n\tstatus code: 500\n", "other letters": "größe 文件", "our own name for it": plugin.ErrUnresponsive.Error(),
	} {
		t.Run(name, func(t *testing.T) {
			order(t, p, "fail "+text)
			_, stateErr := p.State(t.Context())
			_, loginErr := p.Login(t.Context())
			for _, err := range []error{
				p.Do(t.Context(), plugin.Check), p.Do(t.Context(), plugin.Create), p.Do(t.Context(), plugin.Remove),
				p.Do(t.Context(), plugin.StartServer), stateErr, loginErr,
			} {
				var own *plugin.Error
				require.ErrorAs(t, err, &own)
				require.Equal(t, text, err.Error())
				require.NotErrorIs(t, err, plugin.ErrUnresponsive)
			}
		})
	}
	const line = "ü hunter2 ü\n"
	for text, want := range map[string]string{
		strings.Repeat("ü", 10_000):               strings.Repeat("ü", 10_000),
		strings.Repeat(line, 1<<20/len(line)+1):   strings.TrimSuffix(strings.Repeat(line, 1<<20/len(line)), "\n") + " …",
		strings.Repeat("ü", 1<<19) + "hunter2\nx": "[an error of more than 1 MiB on one line was left out]",
	} {
		order(t, p, "fail "+text)
		require.True(t, want == p.Do(t.Context(), plugin.Create).Error(), "a long text is cut between lines, whatever is in them")
	}
	order(t, p, "refuse")
	require.EqualError(t, p.Configure(t.Context(), nil), "x requires the --x-text option")
	require.ErrorContains(t, p.Load(t.Context(), []byte(`{"Given": 7}`)), "cannot unmarshal")
}

// TestProcess_accidents: a driver that panics says so; one whose process ends is unresponsive, and named so at once.
func TestProcess_accidents(t *testing.T) {
	p, out := start(t, "ours")
	order(t, p, "panic")
	var own *plugin.Error
	require.ErrorAs(t, p.Do(t.Context(), plugin.Create), &own)
	require.Regexp(t, `^Panic in the driver: runtime error: invalid memory address or nil pointer dereference \(at plugin_test\.\(\*obedient\)\.\w+, driver_test\.go:\d+\)$`, own.Error())
	require.Contains(t, out.String(), "\ngoroutine ", "its stack is in the log")
	order(t, p, "nothing")
	require.NoError(t, p.Do(t.Context(), plugin.Create), "it lives on")

	for what, says := range map[string]string{
		"exit": "", "panic-text": ": panic: no error, but a text", "panic-aside": ": panic: nobody recovers this", "panic-long": "",
	} {
		t.Run(what, func(t *testing.T) {
			p, _ := start(t, "")
			order(t, p, what)
			err := p.Do(t.Context(), plugin.Create)
			require.ErrorIs(t, err, plugin.ErrUnresponsive)
			require.EqualError(t, err, "the driver does not respond: its process ended during Create"+says)
			_, err = p.Record(t.Context())
			require.ErrorIs(t, err, plugin.ErrUnresponsive)
		})
	}
}

// TestStart_refuses_other_protocols and says which one it met.
func TestStart_refuses_other_protocols(t *testing.T) {
	_, _, err := tryStart(t, "other version")
	require.ErrorIs(t, err, plugin.ErrUnresponsive)
	require.ErrorContains(t, err, "starting the driver: the driver does not respond in a known version: it speaks version 99 of the plugin protocol, not 1")
	_, _, err = tryStart(t, "other service")
	require.ErrorContains(t, err, "can't find service RpcServerDriver.GetVersion")
}

// TestProcess_answers_while_it_creates: the record is asked for while the driver is at work, and after it was cancelled.
func TestProcess_answers_while_it_creates(t *testing.T) {
	listener := listen(t)
	p, _ := start(t, "")
	order(t, p, "wait "+listener.Addr().String())
	ctx, cancel := context.WithCancelCause(t.Context())
	created := make(chan error, 1)
	go func() { created <- p.Do(ctx, plugin.Create) }()
	connection, err := listener.Accept()
	require.NoError(t, err)
	require.Equal(t, "srv-1", recorded(t, p).Server)
	reason := errors.New("the pod ends")
	cancel(reason)
	require.ErrorIs(t, <-created, reason)
	require.Equal(t, "srv-1", recorded(t, p).Server, "who was cancelled can still say what it made")
	require.NoError(t, connection.Close())
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// TestKill_ends_what_the_driver_started, also when the driver itself has ended before.
func TestKill_ends_what_the_driver_started(t *testing.T) {
	for name, driverEnds := range map[string]bool{"a driver that lives": false, "a driver that is gone": true} {
		t.Run(name, func(t *testing.T) {
			listener := listen(t)
			p, _ := start(t, "")
			order(t, p, "fork "+listener.Addr().String())
			require.NoError(t, p.Do(t.Context(), plugin.Create))
			child, err := listener.Accept()
			require.NoError(t, err)
			if driverEnds {
				order(t, p, "exit")
				require.ErrorIs(t, p.Do(t.Context(), plugin.Create), plugin.ErrUnresponsive)
			}
			p.Kill()
			require.NoError(t, child.SetReadDeadline(time.Now().Add(20*time.Second)))
			_, err = child.Read(make([]byte, 1))
			require.Error(t, err)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the child has ended")
		})
	}
}

// TestProcess_output is all that a driver prints but its address.
func TestProcess_output(t *testing.T) {
	p, out := start(t, "")
	order(t, p, "print MARKER")
	require.NoError(t, p.Do(t.Context(), plugin.Create))
	p.Kill()
	require.Contains(t, out.String(), "to stdout: MARKER\n")
	require.Contains(t, out.String(), "to stderr: MARKER\n")
	require.NotContains(t, out.String(), "127.0.0.1:")
}

// TestKill_waits until the last words of the driver have been written, which often say why it failed.
func TestKill_waits(t *testing.T) {
	p, out := start(t, "")
	order(t, p, "chatter MARKER")
	require.EqualError(t, p.Do(t.Context(), plugin.Create), "MARKER")
	p.Kill()
	require.Equal(t, chatter, strings.Count(out.String(), " of MARKER\n"))
}

// TestProcess_environment: the driver gets what it is given, besides the protocol's own, and nothing of ours.
func TestProcess_environment(t *testing.T) {
	t.Setenv("OURS", "MARKER")
	self, err := os.Executable()
	require.NoError(t, err)
	spare := make([]string, 0, 8)
	env := append(spare, "TOKEN=t", "MACHINE_PLUGIN_TOKEN=7", serves+"=ours")
	p, err := plugin.Start(t.Context(), plugin.Options{Name: "acme", Path: self, Env: env, Output: &output{}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	order(t, p, "environment")
	require.NoError(t, p.Do(t.Context(), plugin.Create))
	require.Equal(t, []string{"MACHINE_PLUGIN_DRIVER_NAME=acme", "MACHINE_PLUGIN_TOKEN=42", serves + "=ours", "TOKEN=t"}, recorded(t, p).Given)
	require.Equal(t, make([]string, 5), spare[:8][3:], "the caller's own list is not written to")
}
