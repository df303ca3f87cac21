package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
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
			if output != "" && output != "json" {
				return fmt.Errorf("unknown output format %q: json is the only one", output)
			}
			status, err := server.ReadStatus(cmd.Context(), dataDir)
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(status)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), status.String())
			return err
		},
	}
	dataDirFlag(cmd, &dataDir)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for machines")
	return cmd
}

func tokenCommand() *cobra.Command {
	var dataDir, role string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "token --data-dir DIR",
		Short: "Make a join token that expires",
		Long: "Make a token with which machines can join the cluster of a data directory, and print it.\n" +
			"It is good at every server of the cluster until it expires, or until the role's own token, DATA/pki/token-ROLE, is replaced.\n" +
			"An agent that has joined keeps its certificates, so it can start again after that.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := server.JoinToken(dataDir, pki.Role(role), life)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	dataDirFlag(cmd, &dataDir)
	cmd.Flags().StringVar(&role, "role", string(pki.RoleAgent), "what it lets machines become: agent or server")
	cmd.Flags().DurationVar(&life, "ttl", time.Hour, "how long it lets machines in")
	return cmd
}

func imagesCommand() *cobra.Command {
	var dataDir string
	imports := &cobra.Command{
		Use:   "import FILE... --data-dir DIR",
		Short: "Load image archives (docker save or OCI layout) into a running node",
		Args: func(cmd *cobra.Command, files []string) error {
			if len(files) == 0 {
				return errors.New("no image archive given: localkube images " + cmd.Use)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			dir, err := datadir.Locate(dataDir)
			if err != nil {
				return err
			}
			if !dir.Exists() {
				return errors.New("nothing runs on this data directory: it does not exist")
			}
			return node.ImportImages(cmd.Context(), dir, files...)
		},
	}
	dataDirFlag(imports, &dataDir)
	cmd := &cobra.Command{Use: "images", Short: "Work on the node's image store"}
	cmd.AddCommand(imports)
	return cmd
}

func versionText() string {
	info := version.Get()
	return fmt.Sprintf("Kubernetes %s %s %s", info.GitVersion, info.GoVersion, info.Platform)
}

func dataDirFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "data-dir", "", "where everything is kept (required)")
}
