package main

import (
	"fmt"
	"os"

	"github.com/rancher/machine/libmachine/ssh"

	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/jobrunner/operation/builtin"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
)

// serveDriver serves a built-in driver as a plugin until its client goes away.
func serveDriver(name string) {
	driver, linked := builtin.Drivers()[name]
	if !linked {
		fmt.Fprintf(os.Stderr, "there is no built-in driver %q\n", name)
		os.Exit(operation.ExitUsage)
	}
	// The image has no ssh program.
	ssh.SetDefaultClient(ssh.Native)
	if err := plugin.Serve(driver, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "serving the driver:", err)
		os.Exit(operation.ExitFailed)
	}
}
