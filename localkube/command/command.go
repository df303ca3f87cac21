package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/server"
)

// New returns the command line.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "localkube",
		Short:         "A real Kubernetes in one binary, for trying and testing",
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	images := &cobra.Command{Use: "images", Short: "Work on the node's image store"}
	images.AddCommand(importCommand())
	cmd.AddCommand(serverCommand(), downCommand(), images,
		// It stands in the help text only; main runs it before this.
		&cobra.Command{Use: "kubectl", Short: "The kubectl of this Kubernetes version", Run: func(*cobra.Command, []string) {}})
	return cmd
}

func serverCommand() *cobra.Command {
	var opts server.Options
	cmd := &cobra.Command{
		Use:   "server --data-dir DIR",
		Short: "Run a control plane, and a node with --node, until SIGTERM",
		Long: "Run a control plane, and a node with --node, until SIGTERM or SIGINT.\n" +
			"When all is ready the path of the administrator's kubeconfig is printed on stdout, and nothing else ever is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return server.Run(cmd.Context(), opts, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	dataDirFlag(cmd, &opts.DataDir)
	flags := cmd.Flags()
	flags.StringVar(&opts.BindAddress, "bind-address", "", "listen address of the API server (default 127.0.0.1, or 0.0.0.0 with --node)")
	flags.BoolVar(&opts.Ephemeral, "ephemeral", false, "remove the data directory at the end, and stop nothing gracefully")
	flags.StringSliceVar(&opts.Disable, "disable", nil, "components not to run: controller-manager, scheduler")
	flags.StringVar(&opts.Kubeconfig, "kubeconfig", "", "a further place to write the administrator's kubeconfig to")
	flags.BoolVar(&opts.RunNode, "node", false, "run pods on this machine as well; needs root, containerd, runc, iptables and CNI plugins")
	return cmd
}

func downCommand() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "down --data-dir DIR",
		Short: "Stop what runs on a data directory and clean up after its node",
		Long: "Stop the server of a data directory and remove its pods, mounts, cgroups, routes and iptables rules,\n" +
			"also when it was killed before. The data directory itself stays: a later start goes on from there.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return server.Down(cmd.Context(), dataDir, cmd.ErrOrStderr())
		},
	}
	dataDirFlag(cmd, &dataDir)
	return cmd
}

func importCommand() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "import FILE... --data-dir DIR",
		Short: "Load image archives (docker save or OCI layout) into a running node",
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return errors.New("no image archive given")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			dir, err := datadir.Locate(dataDir)
			if err != nil {
				return err
			}
			for _, file := range files {
				if err := node.ImportImage(cmd.Context(), dir, nil, file); err != nil {
					return fmt.Errorf("importing %s: %w", file, err)
				}
			}
			return nil
		},
	}
	dataDirFlag(cmd, &dataDir)
	return cmd
}

func dataDirFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "data-dir", "", "where everything is kept (required)")
}
