package command

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/access"
)

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
		Args:              arguments(oneName),
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
	addAddressFlags(cmd, &o.login)
	_ = cmd.MarkFlagDirname("dir")
	return withName(e, cmd)
}

func (e *env) keys(ctx context.Context, name string, o *keysOptions) error {
	api, m, err := e.machine(ctx, name)
	if err != nil {
		return err
	}
	login, err := access.Read(ctx, api, m, e.filled(o.login))
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
	for _, file := range files.Files {
		if _, err := fmt.Fprintln(e.Streams.Out, filepath.Join(files.Dir, file.Name)); err != nil {
			return err
		}
	}
	if login.Jump == "" {
		_, err = fmt.Fprintf(e.Streams.Out, "Log in with: %s\n", files.SSHCommand())
		return err
	}
	// With -F, ssh reads no other configuration, for the jump neither.
	_, err = fmt.Fprintf(e.Streams.Out, "Log in with: ssh %s, after this line in your ~/.ssh/config, which says how to reach %s: Include %s\n", m.Name, login.Jump,
		filepath.Join(files.Dir, "config"))
	return err
}
