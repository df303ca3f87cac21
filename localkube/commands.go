package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/server"
)

func downCommand() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "down --data-dir DIR",
		Short: "Stop what runs on a data directory and clean up after its node",
		Long: "Stop the server or agent of a data directory and remove its pods, mounts, cgroups, routes and iptables rules,\n" +
			"also when it was killed before. The data directory itself stays: a later start goes on from there.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return server.Down(cmd.Context(), dataDir, cmd.ErrOrStderr())
		},
	}
	dataDirFlag(cmd, &dataDir)
	return cmd
}

func statusCommand() *cobra.Command {
	var dataDir, output string
	cmd := &cobra.Command{
		Use:   "status --data-dir DIR",
		Short: "Tell what runs on a data directory",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := server.ReadStatus(cmd.Context(), dataDir)
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), status, output)
		},
	}
	dataDirFlag(cmd, &dataDir)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for machines")
	return cmd
}

func printStatus(out io.Writer, status server.Status, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(status)
	case "":
		_, err := io.WriteString(out, status.String())
		return err
	default:
		return fmt.Errorf("unknown output format %q: json is the only one", format)
	}
}

func imagesCommand() *cobra.Command {
	var dataDir string
	imports := &cobra.Command{
		Use:   "import FILE... --data-dir DIR",
		Short: "Load image archives (docker save or OCI layout) into a running node",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			return importImages(cmd.Context(), dataDir, files)
		},
	}
	dataDirFlag(imports, &dataDir)
	cmd := &cobra.Command{Use: "images", Short: "Work on the node's image store"}
	cmd.AddCommand(imports)
	return cmd
}

func importImages(ctx context.Context, dataDir string, files []string) error {
	dir, err := datadir.Locate(dataDir)
	if err != nil {
		return err
	}
	if !dir.Exists() {
		return errors.New("nothing runs on this data directory: it does not exist")
	}
	return node.ImportImages(ctx, dir, files...)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the Kubernetes version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := version.Get()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Kubernetes %s %s %s\n", info.GitVersion, info.GoVersion, info.Platform)
			return err
		},
	}
}

func dataDirFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "data-dir", "", "where everything is kept (required)")
}
