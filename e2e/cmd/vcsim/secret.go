package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/e2e/vcenter"
)

func newSecretCommand(stateDir *string) *cobra.Command {
	return &cobra.Command{
		Use: "secret NAME", Short: "Print the manifest of a credential Secret for the vSphere driver", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			endpoint, err := vcenter.ReadEndpoint(*stateDir)
			if err != nil {
				return err
			}
			host, port, err := net.SplitHostPort(endpoint.Address)
			if err != nil {
				return fmt.Errorf("reading the address: %w", err)
			}
			manifest, err := yaml.Marshal(corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Name: args[0]},
				StringData: map[string]string{
					"vcenter": host, "vcenterPort": port, "username": endpoint.Username, "password": endpoint.Password,
				},
			})
			if err != nil {
				return fmt.Errorf("encoding the Secret: %w", err)
			}
			_, err = command.OutOrStdout().Write(manifest)
			return err
		},
	}
}
