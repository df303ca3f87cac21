package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
)

// sshOptions are the flags of ssh.
type sshOptions struct {
	login      access.Login
	terminal   bool
	noTerminal bool
}

func newSSH(e *env) *cobra.Command {
	o := &sshOptions{}
	cmd := &cobra.Command{
		Use:   "ssh NAME [-- COMMAND [ARGUMENT...]]",
		Short: "Log in to a machine's server",
		Long: `Log in to a machine's server with the key and the host key of its state Secret, or run a command there.

Without COMMAND a login shell is opened, in a terminal if you have one. A single COMMAND is a line for the remote shell
('ls | wc -l'); with ARGUMENTs, each arrives as it is. Standard input, output and error are connected, and the exit code is the
remote one; it is 255, as with OpenSSH's ssh, when a signal ended the command or there was no login. Ctrl-C and SIGTERM end
the connection. They are handed on to the command before, but OpenSSH's daemon takes no signals for root: give a command that must
not go on without you a terminal (-t), with which it is hung up.

A server whose host key is not recorded, or is another, is refused. One that does not serve SSH yet is waited for, 20 seconds
at most and before anything is told to it: its daemon restarts shortly after the server was made. With -J, and where the machine names
a jump host (spec.common.sshContact), it is reached over other hosts, by your own OpenSSH ssh with its configuration, keys and known
hosts; the server's host key is verified all the same.`,
		Example: `  {name} ssh web-1
  {name} ssh web-1 -- uname -r
  {name} ssh web-1 -- 'journalctl -u ssh | tail'
  tar c dir | {name} ssh web-1 -- tar x`,
		Args: func(cmd *cobra.Command, args []string) error {
			names := len(args)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				names = dash
			}
			if names != 1 {
				return errors.New("one machine's NAME is needed, and -- before a command")
			}
			return nil
		},
		ValidArgsFunction: e.completeOneMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.terminal && o.noTerminal {
				return usagef(cmd, "-t and -T exclude each other")
			}
			if err := checkLogin(cmd, o.login); err != nil {
				return err
			}
			return e.ssh(cmd.Context(), args[0], args[1:], o)
		},
	}
	e.addLoginFlags(cmd, &o.login)
	cmd.Flags().BoolVarP(&o.terminal, "tty", "t", false, "Give the command a terminal.")
	cmd.Flags().BoolVarP(&o.noTerminal, "no-tty", "T", false, "Give the shell no terminal.")
	return cmd
}

func (e *env) ssh(ctx context.Context, name string, command []string, o *sshOptions) error {
	client, err := e.dial(ctx, name, o.login)
	if err != nil {
		return &exitError{code: codeNoLogin, cause: err}
	}
	defer func() { _ = client.Close() }()
	session := access.Session{Streams: e.Streams, Command: command, ForceTerminal: o.terminal, NoTerminal: o.noTerminal, Term: e.Term}
	switch status, err := session.Run(ctx, client); {
	case err != nil:
		return &exitError{code: codeNoLogin, cause: err}
	case status != codeOK:
		return &exitError{code: status}
	}
	return nil
}

// addLoginFlags adds what ssh, scp and keys have in common.
func (e *env) addLoginFlags(cmd *cobra.Command, login *access.Login) {
	e.addAddressFlags(cmd, login)
	cmd.Flags().BoolVar(&login.AcceptNewHostKey, "accept-new-host-key", false, "Trust the key the server shows if none is recorded, and record it.")
}

func (e *env) addAddressFlags(cmd *cobra.Command, login *access.Login) {
	login.Command, login.ErrOut = e.Name, e.Streams.ErrOut
	login.Note = func(text string) { e.note("%s", text) }
	cmd.Flags().StringVarP(&login.User, "login", "l", "", "User on the server; the driver's when empty.")
	cmd.Flags().IntVarP(&login.Port, "port", "p", 0, "Port of the server's SSH daemon; the driver's when 0.")
	cmd.Flags().StringVarP(&login.Jump, "jump", "J", "", "Host over which the server is reached, [USER@]HOST[:PORT]; several with commas; by default the machine's, or \"none\".")
	cmd.Flags().StringVar(&login.Address, "address", "", "Address of the server, if you reach it at another one than the driver's.")
}

func checkLogin(cmd *cobra.Command, login access.Login) error {
	if login.Port < 0 || login.Port > 65535 {
		return usagef(cmd, "the port %d is not between 1 and 65535", login.Port)
	}
	if login.Jump != "" {
		if err := (access.Jump{Hosts: login.Jump}).Check(); err != nil {
			return usage(cmd, err)
		}
	}
	return nil
}

// dial finds a machine and logs in to its server.
func (e *env) dial(ctx context.Context, name string, login access.Login) (*sshkeys.Client, error) {
	api, m, err := e.machine(ctx, name)
	if err != nil {
		return nil, err
	}
	return access.Dial(ctx, api, m, login)
}

func newSCP(e *env) *cobra.Command {
	var login access.Login
	var recursive bool
	cmd := &cobra.Command{
		Use:   "scp SOURCE... DESTINATION",
		Short: "Copy files to or from a machine's server",
		Long: `Copy files to or from a machine's server. Paths on a server are written NAME:path; a relative path begins in the user's home
directory. A path here that has a colon is written with ./ before it. The host key is verified as with ssh.

Symbolic links are followed, and files and directories that are new get the modes of their sources, as OpenSSH's scp does.
What is neither a file nor a directory, or cannot be read, is left out and named; the rest is copied, and the exit code is 1.`,
		Example: `  {name} scp app.conf web-1:/etc/app.conf
  {name} scp -r web-1:/var/log ./logs`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: e.completeCopy,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := access.ParseCopy(args, recursive)
			if err != nil {
				return usage(cmd, err)
			}
			if err := checkLogin(cmd, login); err != nil {
				return err
			}
			plan.Note = func(err error) { e.note("%w", err) }
			if access.IsTerminal(e.Streams.ErrOut) {
				login.Progress = &access.Progress{}
				defer login.Progress.Show(e.Streams.ErrOut)()
			}
			return plan.Run(cmd.Context(), func(ctx context.Context, machine string) (*sshkeys.Client, error) {
				return e.dial(ctx, machine, login)
			})
		},
	}
	e.addLoginFlags(cmd, &login)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "Copy directories with all they hold.")
	return cmd
}

// keysOptions are the flags of keys.
type keysOptions struct {
	dir   string
	force bool
	login access.Login
}

func newKeys(e *env) *cobra.Command {
	o := &keysOptions{}
	cmd := &cobra.Command{
		Use:   "keys NAME",
		Short: "Write a machine's SSH key, known_hosts and ssh_config to files",
		Long: `Write a machine's SSH key, public key, known_hosts and an ssh_config into DIR/NAME, readable by you alone, and print the
command with which your own ssh logs in. Files of another machine or by other hands are not overwritten without --force.`,
		Example: `  {name} keys web-1 --dir ~/.ssh/drover
  ssh -F ~/.ssh/drover/web-1/config web-1`,
		Args:              oneName,
		ValidArgsFunction: e.completeOneMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLogin(cmd, o.login); err != nil {
				return err
			}
			return e.keys(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", ".", "Directory in which a directory called like the machine is made.")
	cmd.Flags().BoolVar(&o.force, "force", false, "Overwrite files that were not written for this machine.")
	e.addAddressFlags(cmd, &o.login)
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

func (e *env) keys(ctx context.Context, name string, o *keysOptions) error {
	api, m, err := e.machine(ctx, name)
	if err != nil {
		return err
	}
	login, err := access.Read(ctx, api, m, o.login)
	if err != nil {
		return err
	}
	files, err := access.NewKeyFiles(o.dir, m, login)
	if err != nil {
		return err
	}
	if err := files.Write(o.force); err != nil {
		return err
	}
	if len(login.KnownHosts) == 0 {
		e.note("no host key of %s is recorded: ssh will refuse it until '%s ssh %s -n %s --accept-new-host-key' has recorded one and the files are written again",
			m.Name, e.Name, m.Name, m.Namespace)
	}
	var text strings.Builder
	for _, file := range files.Files {
		fmt.Fprintln(&text, filepath.Join(files.Dir, file.Name))
	}
	how := files.SSHCommand()
	if login.Jump != "" {
		// With -F, ssh reads no other configuration, for the jump neither.
		how = fmt.Sprintf("ssh %s, after this line in your ~/.ssh/config, which says how to reach %s: Include %s",
			m.Name, login.Jump, filepath.Join(files.Dir, "config"))
	}
	_, err = fmt.Fprintf(e.Streams.Out, "%sLog in with: %s\n", text.String(), how)
	return err
}
