package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/vcenter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "vcsim:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	stateDir := ""
	root := &cobra.Command{
		Use: "vcsim", Short: "A simulated vCenter whose machines are servers of the local cloud, for tests",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&stateDir, "state-dir", ".drover/vcenter", "directory of the simulator's state")
	root.AddCommand(newServeCommand(&stateDir), newListCommand(&stateDir), newDestroyCommand(&stateDir), newSecretCommand(&stateDir))
	return root
}

func newListCommand(stateDir *string) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "Print the virtual machines as JSON lines", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			endpoint, err := vcenter.ReadEndpoint(*stateDir)
			if err != nil {
				return err
			}
			machines, err := vcenter.List(command.Context(), endpoint)
			if err != nil {
				return err
			}
			encoder := json.NewEncoder(command.OutOrStdout())
			for _, machine := range machines {
				if err := encoder.Encode(machine); err != nil {
					return fmt.Errorf("printing: %w", err)
				}
			}
			return nil
		},
	}
}

func newDestroyCommand(stateDir *string) *cobra.Command {
	return &cobra.Command{
		Use: "destroy NAME", Short: "Destroy a virtual machine behind everyone's back", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			endpoint, err := vcenter.ReadEndpoint(*stateDir)
			if err != nil {
				return err
			}
			return vcenter.Destroy(command.Context(), endpoint, args[0])
		},
	}
}
