// Command drover is the command line of Drover. Linked as kubectl-drover it is also a kubectl
// plugin; linked as kubectl_complete-drover it gives kubectl the plugin's completions.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/drover-project/drover/cmd/drover/command"
)

// version is set by the linker.
var version string

func main() {
	os.Exit(run())
}

func run() int {
	// The log of Kubernetes' libraries is for their authors; drover informs the user with notes and
	// errors.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release) // a second signal ends the process immediately
	name, args := command.Invocation(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), os.Args[1:])
	return command.Execute(ctx, command.Options{
		Name:    name,
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Version: version,
	}, args)
}
