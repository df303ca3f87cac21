package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud/admin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "localcloud:", err)
		os.Exit(1)
	}
}

// shared are the flags that every command has.
type shared struct {
	stateDir string
}

// group is a command that only holds others; without this, one that is misspelt would print help and succeed.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(commands...)
	return command
}

// client returns a client of the running cloud.
func (s *shared) client() (*admin.Client, error) { return admin.Dial(s.stateDir) }

// say writes to the command's output; nobody can be told when that fails.
func say(command *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(command.OutOrStdout(), format, args...)
}

func newRootCommand() *cobra.Command {
	flags := &shared{}
	root := &cobra.Command{
		Use: "localcloud", Short: "A DigitalOcean-compatible cloud on this machine, for tests",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&flags.stateDir, "state-dir", ".drover/cloud", "directory of the cloud's state")
	root.AddCommand(
		newServeCommand(flags), newRootFSCommand(), newCleanCommand(flags),
		newListCommand(flags), newLedgerCommand(flags), newLeftoversCommand(flags), newEnvCommand(flags),
		newFaultCommand(flags), newServerCommand(flags), newTokenCommand(flags), newFileCommand(flags),
		newVanishCommand(flags), newLimitCommand(flags),
	)
	return root
}
