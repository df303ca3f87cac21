// Command manager runs Drover's controllers, its webhooks and, unless Cluster API is installed
// already, Cluster API's core.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := command(os.LookupEnv).ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// memoryShare is how much of the pod's memory limit Go may use: the pages of the binary, in which
// all drivers are, count there too. GOMEMLIMIT is obeyed.
const memoryShare = 0.85

// lookupEnv is os.LookupEnv, or a test's.
type lookupEnv func(name string) (string, bool)

func command(env lookupEnv) *cobra.Command {
	o := newOptions(env)
	verbosity, kubeconfig := 0, ""
	root := &cobra.Command{
		Use:   "manager",
		Short: "Turn docker-machine drivers into Cluster API infrastructure",
		Long: "The manager runs Drover's controllers and webhooks, and Cluster API's core unless that is installed already.\n" +
			"It installs its own CRDs, policies and webhook configurations. `manager manifests` prints the objects that run it in a cluster.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			// Everything goes through klog, as Cluster API does it.
			flags := flag.NewFlagSet("klog", flag.ContinueOnError)
			klog.InitFlags(flags)
			if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
				return fmt.Errorf("setting the verbosity: %w", err)
			}
			if err := boundLog(flags, os.Stderr); err != nil {
				return err
			}
			ctrl.SetLogger(newCalm(klog.Background()))
			// Close to the pod's limit the garbage collector runs more often: short-lived garbage
			// that a tenant causes must not end the manager.
			if _, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithRatio(memoryShare)); err != nil && !errors.Is(err, memlimit.ErrNoLimit) {
				ctrl.Log.Info("The pod's memory limit could not be read", "why", err.Error())
			}
			find := config.GetConfig
			if kubeconfig != "" {
				find = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
			}
			cluster, err := find()
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			return run(cmd.Context(), cluster, o)
		},
	}
	root.Flags().IntVarP(&verbosity, "v", "v", 0, "log verbosity: 1 adds Drover's actions and their reasons, 4 and higher add Cluster API's details")
	root.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig for running outside a cluster (default: the pod's own account, $KUBECONFIG, ~/.kube/config)")
	o.addFlags(root.Flags())
	root.AddCommand(manifestsCommand())
	return root
}
