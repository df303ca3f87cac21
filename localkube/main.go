package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	if len(os.Args) > 1 {
		if run, ok := components()[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	klog.SetLogger(logr.Discard()) // our own steps are the log of these verbs
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "localkube:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "localkube",
		Short:         "A real Kubernetes in one binary, for trying and testing",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(serverCommand(), agentCommand(), statusCommand(), downCommand(), imagesCommand(), versionCommand(), kubectlHelp())
	return cmd
}
