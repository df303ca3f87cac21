package command

import "github.com/spf13/cobra"

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
	cmd.AddCommand(serverCommand(), agentCommand(), statusCommand(), downCommand(), tokenCommand(), imagesCommand(), versionCommand(), kubectlHelp())
	return cmd
}

// kubectlHelp lists the verb in the help text; main runs it before this.
func kubectlHelp() *cobra.Command {
	return &cobra.Command{Use: "kubectl", Short: "The kubectl of this Kubernetes version", Run: func(*cobra.Command, []string) {}}
}
