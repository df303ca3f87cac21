package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/nspawn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Other commands are sent to the running cloud with the arguments as typed.
	root := cloud.Command("", func(command *cobra.Command, _ func(*cloud.Cloud) error) error {
		output, err := cloud.Ask(command.Context(), stateDir(command), os.Args[1:]...)
		_, _ = io.WriteString(command.OutOrStdout(), output) // a write error has no recipient
		return err
	})
	opts := nspawn.ImageOptions{}
	build := &cobra.Command{
		Use: "build", Short: "Make it, unless it is there; needs root, debootstrap and, the first time, a network", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			opts.Progress = command.ErrOrStderr()
			path, err := nspawn.BuildImage(command.Context(), opts)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), path)
			return err
		},
	}
	build.Flags().StringVar(&opts.Dir, "rootfs-dir", ".drover/rootfs", "directory that caches it")
	root.AddCommand(serveCommand(), cloud.Group("rootfs", "The servers' root file system", build),
		&cobra.Command{
			Use: "clean", Short: "Stop the cloud and remove its every trace, also after a crash", Args: cobra.NoArgs,
			RunE: func(command *cobra.Command, _ []string) error {
				return clean(command.Context(), stateDir(command))
			},
		})
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "localcloud:", err)
		os.Exit(1)
	}
}

func stateDir(command *cobra.Command) string { return command.Flag("state-dir").Value.String() }

func serveCommand() *cobra.Command {
	opts := cloud.Options{}
	command := &cobra.Command{
		Use: "serve", Short: "Serve the cloud until interrupted, then remove all servers", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			opts.StateDir, opts.Progress = stateDir(command), command.ErrOrStderr()
			opts.Log = slog.New(slog.NewTextHandler(command.ErrOrStderr(), nil))
			c, err := cloud.New(opts)
			if err != nil {
				return err
			}
			if err := c.Start(command.Context()); err != nil {
				if closeErr := c.Close(); closeErr != nil {
					opts.Log.Error("closing", "error", closeErr)
				}
				return err
			}
			select {
			case <-command.Context().Done():
			case <-c.Stopped():
			}
			opts.Log.Info("stopping")
			return c.Close()
		},
	}
	set := command.Flags()
	set.StringVar(&opts.Backend, "backend", cloud.BackendNspawn, "what droplets are: nspawn (real servers) or instant (simulated)")
	set.StringVar(&opts.RootFSDir, "rootfs-dir", ".drover/rootfs", "directory that caches the servers' root file system")
	set.StringVar(&opts.Localkube, "localkube", "", "binary that servers find as the installer image of k3s in a registry (default: no registry)")
	set.StringToStringVar(&opts.Tokens, "token", nil, "a further API token, NAME=SECRET, visible in the process list; may be repeated")
	return command
}
