package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud/files"
)

func newFileCommand(flags *shared) *cobra.Command {
	return group("file", "The file server for download tests", newFilePutCommand(flags), newFileFaultCommand(flags))
}

func newFilePutCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "put NAME PATH", Short: "Serve a file and print its URL and SHA-256", Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			content, err := os.Open(args[1])
			if err != nil {
				return fmt.Errorf("opening file: %w", err)
			}
			defer func() { _ = content.Close() }()
			digest, err := client.PutFile(command.Context(), args[0], content)
			if err != nil {
				return err
			}
			say(command, "%s/%s %s\n", client.Endpoints().Files, args[0], digest)
			return nil
		},
	}
}

func newFileFaultCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "fault NAME [FAULT]", Short: "Make downloads of a file go wrong, or right again",
		Long: "NAME may be * for all files. FAULT is one of 404, 500, html, wrong, truncated, slow, off; none makes it good again.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			fault := files.FaultNone
			if len(args) == 2 {
				fault = files.Fault(args[1])
			}
			return client.SetFileFault(command.Context(), args[0], fault)
		},
	}
}
