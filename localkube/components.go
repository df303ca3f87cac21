package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of all components
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric of all components
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/drover-project/drover/localkube/controlplane"
)

// components are the verbs that take over the whole process; os.Args starts at
// the verb when they run.
func components() map[string]func() int {
	return map[string]func() int{
		controlplane.EtcdName:              runEtcd,
		controlplane.APIServerName:         component(apiserver.NewAPIServerCommand),
		controlplane.ControllerManagerName: component(controllermanager.NewControllerManagerCommand),
		controlplane.SchedulerName:         component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet":                          component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"kube-proxy":                       component(proxy.NewProxyCommand),
		"kubectl":                          func() int { util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())); return 0 },
	}
}

func component(build func() *cobra.Command) func() int {
	return func() int { return cli.Run(build()) }
}

func runEtcd() int {
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
}
