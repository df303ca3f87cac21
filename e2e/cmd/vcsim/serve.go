package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/vcenter"
)

func newServeCommand(stateDir *string) *cobra.Command {
	opts := vcenter.Options{}
	cloudDir, passwordFile := "", ""
	command := &cobra.Command{
		Use: "serve", Short: "Serve the simulated vCenter until interrupted, then remove its guests", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			password, err := os.ReadFile(passwordFile)
			if err != nil {
				return fmt.Errorf("reading the password: %w", err)
			}
			opts.Password = strings.TrimSpace(string(password))
			opts.Log = slog.New(slog.NewTextHandler(command.ErrOrStderr(), nil))
			if cloudDir != "" {
				client, err := admin.Dial(cloudDir)
				if err != nil {
					return err
				}
				opts.Guests = &vcenter.Servers{Cloud: client}
			}
			return serve(command, *stateDir, opts)
		},
	}
	command.Flags().StringVar(&opts.Listen, "listen", "127.0.0.1:0", "host:port to listen on; port 0 takes a free one")
	command.Flags().StringVar(&opts.Username, "username", "administrator@vsphere.local", "who may log in")
	command.Flags().StringVar(&passwordFile, "password-file", "", "file of the password")
	command.Flags().StringVar(&cloudDir, "cloud", "", "state directory of the local cloud that runs the guests; without, guests are addresses only")
	_ = command.MarkFlagRequired("password-file") // fails for an unknown flag only
	return command
}

func serve(command *cobra.Command, stateDir string, opts vcenter.Options) error {
	simulator, err := vcenter.Start(command.Context(), opts)
	if err != nil {
		return err
	}
	if err := vcenter.WriteEndpoint(stateDir, simulator.Endpoint()); err != nil {
		return errors.Join(err, simulator.Close())
	}
	opts.Log.Info("serving", "address", simulator.Address())
	<-command.Context().Done()
	opts.Log.Info("stopping")
	return errors.Join(vcenter.RemoveEndpoint(stateDir, simulator.Endpoint()), simulator.Close())
}
