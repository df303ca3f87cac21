package command

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/drover-project/drover/localkube/config"
	"github.com/drover-project/drover/localkube/distribution"
)

// NewK3s returns the command line of localkube in the packaging of k3s, as far as its units need it.
func NewK3s() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "k3s",
		Short:         "localkube, standing in for k3s",
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for role, short := range map[config.Role]string{config.Server: "Run a server, which is a node as well", config.Agent: "Run a node of a server elsewhere"} {
		cmd.AddCommand(&cobra.Command{
			Use: string(role), Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return distribution.Run(cmd.Context(), role, config.File, cmd.ErrOrStderr())
			},
		})
	}
	cleanup := &cobra.Command{
		Use: "cleanup DATA-DIR", Short: "Take pods, mounts, rules and routes off a machine where nothing runs any more", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return distribution.Cleanup(cmd.Context(), args[0]) },
	}
	cmd.AddCommand(cleanup,
		// It stands in the help text only; main runs it before this.
		&cobra.Command{Use: "kubectl", Short: "The kubectl of this Kubernetes version", Run: func(*cobra.Command, []string) {}})
	return cmd
}
