package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
)

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
			return e.scp(cmd.Context(), plan, login)
		},
	}
	addLoginFlags(cmd, &login)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "Copy directories with all they hold.")
	return withName(e, cmd)
}

func (e *env) scp(ctx context.Context, plan access.Copy, login access.Login) error {
	plan.Note = func(err error) { e.note("%w", err) }
	if access.IsTerminal(e.Streams.ErrOut) {
		progress := &access.Progress{}
		login.Watch = progress.Over
		stop := progress.Show(e.Streams.ErrOut)
		defer stop()
	}
	return plan.Run(ctx, func(ctx context.Context, machine string) (*sshkeys.Client, error) {
		return e.dial(ctx, machine, login)
	})
}
