// Command machine runs inside a Job's pod: machine create, remove, scan, or one stage of probe. It
// reads its request from a mounted Secret, because a command line must not contain secrets, and
// leaves its result in the state Secret.
//
// It is also the plugin binary of the built-in drivers, when MACHINE_PLUGIN_TOKEN is set. It is the
// only program of Drover that links cloud drivers. It needs no shell, no other program and no
// writable directory but HOME and TMPDIR. The vSphere driver alone looks for another program,
// mkisofs: that is this one under a second name, which the image links to it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rancher/machine/libmachine/drivers/plugin/localbinary"
	"github.com/rancher/machine/libmachine/ssh"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/jobrunner/operation/builtin"
	"github.com/drover-project/drover/jobrunner/operation/isoimage"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
	"github.com/drover-project/drover/state"
)

func main() {
	if os.Getenv(localbinary.PluginEnvKey) == localbinary.PluginEnvVal {
		name := os.Getenv(localbinary.PluginEnvDriverName)
		driver, linked := builtin.Drivers()[name]
		if !linked {
			fmt.Fprintf(os.Stderr, "unknown built-in driver %q\n", name)
			os.Exit(operation.ExitUsage)
		}
		// The image has no ssh program.
		ssh.SetDefaultClient(ssh.Native)
		if err := plugin.Serve(driver, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "serving the driver:", err)
			os.Exit(operation.ExitFailed)
		}
		return
	}
	if filepath.Base(os.Args[0]) == isoimage.Program {
		// The program that the vSphere driver starts to pack the user data; the image links its
		// name to us.
		if err := isoimage.Command(os.Args[1:], time.Now()); err != nil {
			fmt.Fprintln(os.Stderr, isoimage.Program+":", err)
			os.Exit(operation.ExitFailed)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if !isUsage(args) {
		fmt.Fprintln(os.Stderr, "usage: machine create | machine remove | machine scan | machine probe fetch|flags|report")
		return operation.ExitUsage
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "finding our own binary:", err)
		return operation.ExitFailed
	}
	options := operation.Options{
		Operation: state.Operation(args[0]), Home: os.Getenv("HOME"), TempDir: os.TempDir(), Self: self,
		Env: driverEnvironment(os.Environ()), Core: inCluster, Output: os.Stdout,
	}
	if stage := args[1:]; len(stage) > 0 {
		options.Stage = stage[0]
	}
	return operation.Run(ctx, options)
}

// isUsage reports whether the arguments are an operation and, for a probe alone, its stage.
func isUsage(args []string) bool {
	switch {
	case len(args) == 1:
		return slices.Contains([]state.Operation{state.Create, state.Remove, state.Scan}, state.Operation(args[0]))
	case len(args) == 2 && args[0] == string(state.Probe):
		return args[1] == jobrunner.StageFetch || args[1] == jobrunner.StageFlags || args[1] == jobrunner.StageReport
	}
	return false
}

func inCluster() (corev1client.CoreV1Interface, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the service account: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a Kubernetes client: %w", err)
	}
	return client.CoreV1(), nil
}

// driverEnvironment drops the variables that would make a driver run as another driver's plugin.
func driverEnvironment(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(variable string) bool { return strings.HasPrefix(variable, "MACHINE_") })
}
