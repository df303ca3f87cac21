// Command drover is the command line of Drover; installed as kubectl-drover it is also a kubectl plugin.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/command"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, args := command.Invocation(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), os.Args[1:])
	return command.Execute(ctx, command.Options{
		Name:    name,
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Term:    os.Getenv("TERM"),
	}, args)
}
