package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud/server"
)

func newServerCommand(flags *shared) *cobra.Command {
	return group("server", "Servers outside of the droplet API, for the generic driver",
		newServerAddCommand(flags), newServerRemoveCommand(flags), newServerListCommand(flags))
}

func newServerAddCommand(flags *shared) *cobra.Command {
	request := server.Request{}
	var keyFiles []string
	var userDataFile string
	command := &cobra.Command{
		Use: "add NAME", Short: "Start a server and print it as JSON", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			request.Name = args[0]
			for _, path := range keyFiles {
				content, err := os.ReadFile(path)
				if err != nil {
					return fmt.Errorf("reading public key: %w", err)
				}
				request.Keys = append(request.Keys, strings.TrimSpace(string(content)))
			}
			if userDataFile != "" {
				content, err := os.ReadFile(userDataFile)
				if err != nil {
					return fmt.Errorf("reading user data: %w", err)
				}
				request.UserData = string(content)
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			info, err := client.StartServer(command.Context(), request)
			return printLines(command.OutOrStdout(), []server.Info{info}, err)
		},
	}
	command.Flags().StringVar(&request.User, "user", "", "login with sudo beside root")
	command.Flags().StringArrayVar(&keyFiles, "key-file", nil, "file of a public key that may log in; may be repeated")
	command.Flags().StringVar(&userDataFile, "user-data-file", "", "file of cloud-init user data")
	return command
}

func newServerRemoveCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Remove a server", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			return client.StopServer(command.Context(), args[0])
		},
	}
}

func newServerListCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "Print the servers as JSON lines", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			servers, err := client.Servers(command.Context())
			return printLines(command.OutOrStdout(), servers, err)
		},
	}
}
