// Command testbed brings the whole of Drover up on one machine, shows it, and takes it down again:
// make up, demo, down.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o testbed.Options
	root := &cobra.Command{
		Use:           "testbed",
		Short:         "Bring the whole of Drover up on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&o.StateDir, "state-dir", ".drover", "where everything that runs keeps its files")
	root.PersistentFlags().StringVar(&o.BinDir, "bin-dir", "bin", "where the built binaries are")
	root.PersistentFlags().StringVar(&o.CacheDir, "cache-dir", "", "what survives down (default STATE-DIR/cache)")
	run := func(use, short string, do func(*testbed.Testbed, context.Context) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out = cmd.ErrOrStderr()
			bed, err := testbed.New(o)
			if err != nil {
				return err
			}
			return do(bed, cmd.Context())
		}}
	}
	root.AddCommand(
		run("up", "Bring everything up and leave it running", (*testbed.Testbed).UpAndTell),
		run("down", "Remove every trace", (*testbed.Testbed).Down),
		run("demo", "Create a k3s cluster, change it in place, delete it, and remove every trace", (*testbed.Testbed).Demo),
		run("demo-servers", "Create two servers without a cluster, log in, scale, delete, and remove every trace", (*testbed.Testbed).DemoServers),
	)
	return root
}
