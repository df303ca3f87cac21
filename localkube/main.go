// Command localkube is a real Kubernetes in one binary: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, and on request a node with
// containerd, kubelet and kube-proxy.
//
// Every component runs as a child process of this same executable under a verb
// of its own (localkube kube-apiserver …), because the components share global
// state that does not bear two of them in one process. See README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of all components
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric of all components
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/drover-project/drover/localkube/command"
	"github.com/drover-project/drover/localkube/controlplane"
)

// components are the verbs that take over the whole process; os.Args starts at
// the verb when they run.
var components = map[string]func() int{
	controlplane.EtcdName: func() int {
		if len(os.Args) != 2 {
			fmt.Fprintln(os.Stderr, "usage: localkube etcd CONFIG-FILE")
			return 2
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		if err := controlplane.RunEtcd(ctx, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	},
	controlplane.APIServerName:         func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	controlplane.ControllerManagerName: func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	controlplane.SchedulerName:         func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                          func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":                       func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubectl":                          func() int { util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())); return 0 },
}

// k3s is the name under which this executable replaces that distribution, and suffix the additional
// part of its version.
const k3s, suffix = "k3s", "+k3s1"

func main() {
	if os.Getenv("GOGC") == "" {
		// A test cluster has few objects: later garbage collection costs little memory, and saves a
		// test's API server a tenth of its CPU time.
		debug.SetGCPercent(400)
	}
	root := command.New
	if filepath.Base(os.Args[0]) == k3s {
		root = command.NewK3s
		if err := version.SetDynamicVersion(version.Get().GitVersion + suffix); err != nil {
			fmt.Fprintln(os.Stderr, "k3s:", err)
			os.Exit(1)
		}
	}
	if len(os.Args) > 1 {
		if run, ok := components[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}

func run(build func() *cobra.Command) error {
	// The components' packages have put flags of theirs here, which cobra would show.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
	klog.SetLogger(logr.Discard()) // our own steps are the log of these verbs
	root := build()
	root.SetOut(os.Stdout)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return root.ExecuteContext(ctx)
}
