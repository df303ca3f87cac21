package main

import (
	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud/nspawn"
)

func newRootFSCommand() *cobra.Command {
	opts := nspawn.ImageOptions{}
	build := &cobra.Command{
		Use: "build", Short: "Make it, unless it is there; needs root, debootstrap and, the first time, a network", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			opts.Progress = command.ErrOrStderr()
			path, err := nspawn.BuildImage(command.Context(), opts)
			if err != nil {
				return err
			}
			say(command, "%s\n", path)
			return nil
		},
	}
	command := group("rootfs", "The servers' root file system", build)
	command.PersistentFlags().StringVar(&opts.Dir, "rootfs-dir", ".drover/rootfs", "directory that caches it")
	build.Flags().StringVar(&opts.Mirror, "mirror", "", "mirror of Debian packages (default: this machine's own)")
	return command
}
