// Command vcsim is a vCenter on this machine for tests of the vSphere driver: govmomi's simulator,
// whose virtual machines have guests that are servers of the local cloud. Its state directory holds
// the address and the login for other commands.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/e2e/cloud"
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
	var endpoint vcenter.Endpoint
	readEndpoint := func(*cobra.Command, []string) (err error) {
		endpoint, err = vcenter.ReadEndpoint(stateDir)
		return err
	}
	root := &cobra.Command{
		Use: "vcsim", Short: "A simulated vCenter whose machines are servers of the local cloud, for tests",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&stateDir, "state-dir", ".drover/vcenter", "directory of the simulator's state")
	root.AddCommand(newServeCommand(&stateDir), &cobra.Command{
		Use: "ls", Short: "Print the virtual machines as JSON lines", Args: cobra.NoArgs, PreRunE: readEndpoint,
		RunE: func(command *cobra.Command, _ []string) error {
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
	}, &cobra.Command{
		Use: "secret NAME", Short: "Print the manifest of a credential Secret for the vSphere driver", Args: cobra.ExactArgs(1), PreRunE: readEndpoint,
		RunE: func(command *cobra.Command, args []string) error {
			host, port, err := net.SplitHostPort(endpoint.Address)
			if err != nil {
				return fmt.Errorf("reading the address: %w", err)
			}
			manifest, err := yaml.Marshal(corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: args[0]},
				StringData: map[string]string{"vcenter": host, "vcenterPort": port, "username": endpoint.Username, "password": endpoint.Password},
			})
			if err != nil {
				return fmt.Errorf("encoding the Secret: %w", err)
			}
			_, err = command.OutOrStdout().Write(manifest)
			return err
		},
	}, &cobra.Command{
		Use: "destroy NAME", Short: "Destroy a virtual machine behind everyone's back", Args: cobra.ExactArgs(1), PreRunE: readEndpoint,
		RunE: func(command *cobra.Command, args []string) error {
			return vcenter.Destroy(command.Context(), endpoint, args[0])
		},
	})
	return root
}

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
				if _, err := cloud.ReadEndpoints(cloudDir); err != nil {
					return err
				}
				opts.Guests = &vcenter.Servers{CloudDir: cloudDir}
			}
			simulator, err := vcenter.Start(command.Context(), opts)
			if err != nil {
				return err
			}
			if err := vcenter.WriteEndpoint(*stateDir, simulator.Endpoint()); err != nil {
				return errors.Join(err, simulator.Close())
			}
			opts.Log.Info("serving", "address", simulator.Address())
			<-command.Context().Done()
			opts.Log.Info("stopping")
			return errors.Join(vcenter.RemoveEndpoint(*stateDir), simulator.Close())
		},
	}
	command.Flags().StringVar(&opts.Listen, "listen", "127.0.0.1:0", "host:port to listen on; port 0 takes a free one")
	command.Flags().StringVar(&opts.Username, "username", "administrator@vsphere.local", "user name for the login")
	command.Flags().StringVar(&passwordFile, "password-file", "", "file of the password")
	command.Flags().StringVar(&cloudDir, "cloud", "", "state directory of the local cloud that runs the guests; without, guests are addresses only")
	_ = command.MarkFlagRequired("password-file") // fails for an unknown flag only
	return command
}
