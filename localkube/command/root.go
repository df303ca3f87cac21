package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// New returns the command line.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "localkube",
		Short:         "A real Kubernetes in one binary, for trying and testing",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.AddCommand(serverCommand(), agentCommand(), statusCommand(), downCommand(), tokenCommand(), imagesCommand(),
		&cobra.Command{Use: "version", Short: "Print the Kubernetes version", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		}},
		// It stands in the help text only; main runs it before this.
		&cobra.Command{Use: "kubectl", Short: "The kubectl of this Kubernetes version", Run: func(*cobra.Command, []string) {}})
	return cmd
}
