package main

import (
	"time"

	"github.com/spf13/cobra"
)

func newTokenCommand(flags *shared) *cobra.Command {
	return group("token", "API tokens",
		newTokenAddCommand(flags), newTokenListCommand(flags), newTokenExpireCommand(flags),
		newTokenChangeCommand(flags, "revoke", "Make the API refuse a token"),
		newTokenChangeCommand(flags, "restore", "Take a revocation or an expiry back"),
	)
}

func newTokenAddCommand(flags *shared) *cobra.Command {
	readOnly := false
	command := &cobra.Command{
		Use: "add NAME", Short: "Make a token and print its secret", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			token, err := client.AddToken(command.Context(), args[0], readOnly)
			if err != nil {
				return err
			}
			say(command, "%s\n", token.Secret)
			return nil
		},
	}
	command.Flags().BoolVar(&readOnly, "read-only", false, "the token may only read")
	return command
}

func newTokenListCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "Print the tokens with their secrets, as JSON lines", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			tokens, err := client.Tokens(command.Context())
			return printLines(command.OutOrStdout(), tokens, err)
		},
	}
}

func newTokenChangeCommand(flags *shared, name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			if name == "restore" {
				return client.RestoreToken(command.Context(), args[0])
			}
			return client.RevokeToken(command.Context(), args[0])
		},
	}
}

func newTokenExpireCommand(flags *shared) *cobra.Command {
	var in time.Duration
	command := &cobra.Command{
		Use: "expire NAME", Short: "Let a token expire", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			return client.ExpireToken(command.Context(), args[0], time.Now().Add(in))
		},
	}
	command.Flags().DurationVar(&in, "in", 0, "how long it is still good")
	return command
}
