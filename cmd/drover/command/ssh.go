package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/access"
)

func newSSH(e *env) *cobra.Command {
	var login access.Login
	cmd := &cobra.Command{
		Use:        "ssh NAME [-- OPTION... COMMAND...]",
		SuggestFor: []string{"exec", "login", "shell"},
		Short:      "Log in to a machine's server",
		Long: `Log in to a machine's server, or run a command there, with your own OpenSSH client.

drover runs ssh with the key, the user, the address and the host key of the machine's state Secret. Everything after -- is passed to
ssh unchanged: first options, then the command. ssh joins the words of the command with spaces for the remote shell, so quote a
command that needs quotes there ('ls | wc -l'). Standard input, output and error are connected. The exit code is the one of ssh: the
command's own, or 255 without a login. The options that drover sets come first; neither yours nor your ssh configuration changes them.

The key is in a private temporary directory while ssh runs. ssh refuses a server that shows another host key than the recorded one.
If no host key is recorded, --accept-new-host-key accepts and records the server's key once.

With -J, ssh reaches the server over other hosts. It logs in there with your own configuration, keys and known hosts. If the machine
names a jump host (spec.common.sshContact.jumpHost), drover asks before it uses that host; without a terminal, -J is needed.`,
		Example: `  {name} ssh web-1
  {name} ssh web-1 -- uname -r
  {name} ssh web-1 -- 'journalctl -u ssh | tail'
  {name} ssh web-1 -- -t sudo top
  {name} ssh web-1 -- -L 8080:localhost:80
  tar c dir | {name} ssh web-1 -- tar x`,
		Args: func(cmd *cobra.Command, args []string) error {
			if names, _ := splitAtDash(cmd, args); len(names) != 1 {
				return errors.New("one machine's NAME is needed, and -- before a command or an option of ssh")
			}
			return nil
		},
		ValidArgsFunction: e.completeOneMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLogin(cmd, login); err != nil {
				return err
			}
			return noLogin(e.openSSH(cmd.Context(), "ssh", args[0], login, func(alias string) []string {
				return append([]string{alias}, args[1:]...)
			}))
		},
	}
	e.addLoginFlags(cmd, &login)
	return cmd
}

// splitAtDash separates the arguments before and after --.
func splitAtDash(cmd *cobra.Command, args []string) (before, after []string) {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		return args[:dash], args[dash:]
	}
	return args, nil
}

// noLogin gives an error that is not an exit status the exit code of ssh for a failed login.
func noLogin(err error) error {
	if _, exited := errors.AsType[*exitError](err); err == nil || exited {
		return err
	}
	return &exitError{code: codeNoLogin, cause: err}
}

// openSSH runs ssh or scp against the server of a machine; drover exits with its exit status.
func (e *env) openSSH(ctx context.Context, program, name string, login access.Login, args func(alias string) []string) error {
	found, err := access.FindProgram(program, e.Streams)
	if err != nil {
		return err
	}
	api, m, err := e.machine(ctx, name)
	if err != nil {
		return err
	}
	status, err := found.Run(ctx, api, m, login, args(m.Name)...)
	if err == nil && status != codeOK {
		err = &exitError{code: status}
	}
	return err
}

// addLoginFlags adds the common flags of ssh, scp and keys.
func (e *env) addLoginFlags(cmd *cobra.Command, login *access.Login) {
	e.addAddressFlags(cmd, login)
	cmd.Flags().BoolVar(&login.AcceptNewHostKey, "accept-new-host-key", false, "If no host key is recorded, trust and record the server's key.")
}

func (e *env) addAddressFlags(cmd *cobra.Command, login *access.Login) {
	login.Command = e.Name
	if access.IsTerminal(e.Streams.In) {
		login.Confirm = e.askYes
	}
	login.Note = func(text string) { e.note("%s", text) }
	cmd.Flags().StringVarP(&login.User, "login", "l", "", "User on the server; default: the driver's.")
	cmd.Flags().IntVarP(&login.Port, "port", "p", 0, "Port of the server's SSH daemon; default: the driver's.")
	cmd.Flags().StringVarP(&login.Jump, "jump", "J", "", "Jump host, [USER@]HOST[:PORT]; separate several with commas; \"none\" for a direct connection; default: the machine's jump host, after confirmation.")
	cmd.Flags().StringVar(&login.Address, "address", "", "Address of the server, if it differs from the driver's.")
}

func checkLogin(cmd *cobra.Command, login access.Login) error {
	if login.Port < 0 || login.Port > 65535 {
		return usagef(cmd, "the port %d is not between 1 and 65535", login.Port)
	}
	if login.Jump != "" {
		if err := access.CheckJump(login.Jump); err != nil {
			return usage(cmd, err)
		}
	}
	return nil
}

func newSCP(e *env) *cobra.Command {
	var login access.Login
	var recursive bool
	cmd := &cobra.Command{
		Use:        "scp SOURCE... DESTINATION [-- OPTION...]",
		SuggestFor: []string{"cp", "copy"},
		Short:      "Copy files to or from a machine's server",
		Long: `Copy files to or from a machine's server with your own OpenSSH client. Paths on the server are written NAME:path; a relative path
begins in the user's home directory. Write ./ before a local path that has a colon.

drover runs scp as it runs ssh (see "ssh --help"). Everything after -- is passed to scp as options. drover exits with the exit code of
scp.`,
		Example: `  {name} scp app.conf web-1:/etc/app.conf
  {name} scp -r web-1:/var/log ./logs
  {name} scp image.tar web-1: -- -C -l 8000`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: e.completeCopy,
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, options := splitAtDash(cmd, args)
			plan, err := access.ParseCopy(paths, options, recursive)
			if err != nil {
				return usage(cmd, err)
			}
			if err := checkLogin(cmd, login); err != nil {
				return err
			}
			if err := plan.CheckLocal(); err != nil {
				return err
			}
			return e.openSSH(cmd.Context(), "scp", plan.Machine, login, plan.Args)
		},
	}
	e.addLoginFlags(cmd, &login)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "Copy directories recursively.")
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
		Long: `Write a machine's SSH key, public key, known_hosts and an ssh_config into DIR/NAME, readable only by you, and print the
command with which your own ssh logs in. Files that drover did not write for this machine are overwritten only with --force.`,
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
	cmd.Flags().StringVar(&o.dir, "dir", ".", "Directory in which drover makes a directory with the machine's name.")
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
	if login.Jump != "" && login.Jump != access.NoJump {
		// With -F, ssh reads no other configuration, not even for the jump host.
		how = fmt.Sprintf("ssh %s, after this line in your ~/.ssh/config, which says how to reach %s: Include %s",
			m.Name, login.Jump, filepath.Join(files.Dir, "config"))
	}
	_, err = fmt.Fprintf(e.Streams.Out, "%sLog in with: %s\n", text.String(), how)
	return err
}
