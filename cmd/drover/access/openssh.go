package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// endGrace is how long ssh may take to end after SIGTERM.
const endGrace = 2 * time.Second

// Program is ssh or scp of the user's own OpenSSH.
type Program struct {
	// Name is ssh or scp, Path the file that FindProgram found.
	Name string
	Path string
	// Streams are connected to the program.
	Streams genericiooptions.IOStreams
}

// FindProgram finds ssh or scp in the PATH.
func FindProgram(name string, streams genericiooptions.IOStreams) (Program, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return Program{}, fmt.Errorf("the program %s is not in your PATH: install the OpenSSH client (package openssh-client on Debian, Ubuntu and Alpine, "+
			"openssh-clients on Fedora, RHEL and SUSE, openssh on Arch; on Windows the optional feature OpenSSH Client)", name)
	}
	return Program{Name: name, Path: path, Streams: streams}, nil
}

// Run runs the program against a machine's server and returns its exit status. args follow the
// options that Drover sets; the machine's name in them stands for the server. The key is in a
// private temporary directory, which is removed on every way out.
func (p Program) Run(ctx context.Context, api *inventory.API, m *facts.Machine, login Login, args ...string) (status int, err error) {
	data, err := Read(ctx, api, m, login)
	if err != nil {
		return 0, err
	}
	if len(data.KnownHosts) == 0 && !login.AcceptNewHostKey {
		return 0, login.unknownHostKey(m)
	}
	// The signals that would end this process end the program first, so that the key is removed.
	ctx, release := signal.NotifyContext(ctx, endings()...)
	defer release()
	dir, err := os.MkdirTemp("", "drover-")
	if err != nil {
		return 0, fmt.Errorf("making a private directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files, err := NewKeyFiles(dir, m, data)
	if err != nil {
		return 0, err
	}
	if err := files.Write(false); err != nil {
		return 0, err
	}
	if len(data.KnownHosts) == 0 {
		status, err = p.learnHostKey(ctx, api, m, login, files)
	}
	if err == nil && status == 0 {
		status, err = p.run(ctx, append(options(files, "yes"), args...))
	}
	if err == nil && status == sshkeys.NoStatus {
		login.adviseAfterFailure(m, data, p.Name)
	}
	return status, err
}

// endings are the signals that end this process. One that the parent process ignores, as nohup
// does, stays ignored.
func endings() []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE}, signal.Ignored)
}

// options are the options of ssh and scp. The first value of an option counts, so neither later
// arguments nor the user's configuration change them. A connection that the user's configuration
// shares is not used: its host key was verified by other rules.
func options(files *KeyFiles, strict string) []string {
	var args []string
	for _, option := range files.options {
		if option.Name == "StrictHostKeyChecking" {
			option.Value = strict
		}
		args = append(args, "-o", option.Name+"="+option.Value)
	}
	return append(args, "-o", "HashKnownHosts=no", "-o", "UpdateHostKeys=no", "-o", "ControlMaster=no", "-o", "ControlPath=none")
}

// learnHostKey logs in once, accepts the server's host key, and records it in the state Secret. It
// returns the exit status of ssh when there was no login.
func (p Program) learnHostKey(ctx context.Context, api *inventory.API, m *facts.Machine, login Login, files *KeyFiles) (int, error) {
	ssh, err := FindProgram("ssh", genericiooptions.IOStreams{Out: p.Streams.ErrOut, ErrOut: p.Streams.ErrOut})
	if err != nil {
		return 0, err
	}
	status, err := ssh.run(ctx, append(options(files, "accept-new"), "-o", "LogLevel=ERROR", "-T", m.Name, "true"))
	if err != nil || status == sshkeys.NoStatus {
		return status, err
	}
	written, err := os.ReadFile(filepath.Join(files.Dir, knownHostsFile))
	if err != nil {
		return 0, fmt.Errorf("reading the host key that ssh accepted: %w", err)
	}
	keys, err := sshkeys.HostKeys(written)
	if err != nil {
		return 0, err
	}
	if len(keys) == 0 {
		return 0, errors.New("ssh logged in and wrote no host key: your ssh configuration verifies host keys in another way")
	}
	var lines []byte
	for _, key := range keys {
		lines = append(lines, sshkeys.KnownHostsLine(files.access.Host, files.access.Port, key)...)
	}
	if err := api.RecordHostKey(ctx, m, lines); err != nil {
		return 0, err
	}
	login.note("recorded the host key of %s in Secret %s", m.Name, jobrunner.StateSecretName(m.Name))
	return 0, nil
}

// run runs the program. When the context ends, the program gets SIGTERM, and SIGKILL if it does not
// end.
func (p Program) run(ctx context.Context, args []string) (int, error) {
	command := exec.CommandContext(ctx, p.Path, args...)
	command.Stdin, command.Stdout, command.Stderr = p.Streams.In, p.Streams.Out, p.Streams.ErrOut
	command.WaitDelay = endGrace
	command.Cancel = func() error {
		if err := command.Process.Signal(syscall.SIGTERM); err == nil || errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return command.Process.Kill() // Windows has no SIGTERM
	}
	err := command.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return sshkeys.NoStatus, fmt.Errorf("running %s: %w", p.Name, context.Cause(ctx))
	case exited && exit.ExitCode() < 0: // ended by a signal
		return sshkeys.NoStatus, nil
	case exited:
		return exit.ExitCode(), nil
	case err != nil:
		return 0, fmt.Errorf("running %s: %w", p.Name, err)
	}
	return 0, nil
}

func (l Login) acceptCommand(m *facts.Machine) string {
	return fmt.Sprintf("'%s ssh %s -n %s --accept-new-host-key'", l.Command, m.Name, m.Namespace)
}

func (l Login) unknownHostKey(m *facts.Machine) error {
	return fmt.Errorf("no host key of %s is recorded, so drover cannot verify the server at its address. If you trust the network between you and the server, "+
		"run %s once: it records the key in Secret %s, and every later connection verifies it", m.Name, l.acceptCommand(m), jobrunner.StateSecretName(m.Name))
}

// adviseAfterFailure notes the next steps after ssh reported that it could not log in. The command
// may have exited with 255 itself.
func (l Login) adviseAfterFailure(m *facts.Machine, data sshkeys.Access, program string) {
	secret := jobrunner.StateSecretName(m.Name)
	public, _ := sshkeys.PublicOf(data.PrivateKey, "") // NewKeyFiles parsed it
	refused := "its cloud's console is the other way in"
	if clouds.Of(facts.DriverName(m.Kind.Name, nil)).TakesHosts() {
		refused = "see \"Another key for a host\" in docs/drivers.md"
	}
	l.note("%s exited with %d. If there was no login, see '%s why %s -n %s'; -l, -p, --address and -J choose another user, port, address or jump host",
		program, sshkeys.NoStatus, l.Command, m.Name, m.Namespace)
	l.note("if the server refuses the key %s of Secret %s: %s", sshkeys.Fingerprint(public), secret, refused)
	l.note("if the host key changed and you know why: remove the recorded key (%s -n %s patch secret %s --type json -p '[{\"op\":\"remove\",\"path\":\"/data/%s\"}]'), then run %s",
		facts.Kubectl(l.Command), m.Namespace, secret, state.SSHKnownHostsKey, l.acceptCommand(m))
}
