package main

import (
	"github.com/spf13/cobra"

	"github.com/drover-project/drover/localkube/server"
)

func serverCommand() *cobra.Command {
	var opts server.Options
	cmd := &cobra.Command{
		Use:   "server --data-dir DIR",
		Short: "Run a control plane, and a node with --node, until SIGTERM",
		Long: "Run a control plane, and a node with --node, until SIGTERM or SIGINT.\n" +
			"When all is ready the path of the administrator's kubeconfig is printed on stdout, and nothing else ever is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return server.Run(cmd.Context(), opts, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.DataDir, "data-dir", "", "where everything is kept (required)")
	flags.StringVar(&opts.BindAddress, "bind-address", "", "what the API server listens on (default 127.0.0.1, or 0.0.0.0 with --node)")
	flags.StringVar(&opts.AdvertiseAddress, "advertise-address", "", "where pods and other machines reach this one (default: by the default route)")
	flags.IntVar(&opts.HTTPSPort, "https-port", 0, "port of the API server; 0 picks one and keeps it")
	flags.StringVar(&opts.PodCIDR, "pod-cidr", "", "range of pod addresses (default "+server.DefaultPodCIDR+")")
	flags.StringVar(&opts.ServiceCIDR, "service-cidr", "", "range of service addresses (default "+server.DefaultServiceCIDR+")")
	flags.StringSliceVar(&opts.TLSNames, "tls-san", nil, "extra name or address in the serving certificate")
	flags.BoolVar(&opts.NoFsync, "no-fsync", false, "do not sync etcd to disk: fast, and lossy on power failure")
	flags.BoolVar(&opts.Ephemeral, "ephemeral", false, "remove the data directory at the end; implies --no-fsync")
	flags.StringSliceVar(&opts.Disable, "disable", nil, "components not to run: controller-manager, scheduler")
	flags.StringVar(&opts.Kubeconfig, "kubeconfig", "", "a further place to write the administrator's kubeconfig to")
	nodeFlags(cmd, &opts)
	return cmd
}

func nodeFlags(cmd *cobra.Command, opts *server.Options) {
	flags := cmd.Flags()
	flags.BoolVar(&opts.RunNode, "node", false, "run pods on this machine as well; needs root, containerd, runc, iptables and CNI plugins")
	flags.StringVar(&opts.Node.Name, "node-name", "", "name of this machine (default: its host name)")
	flags.StringSliceVar(&opts.Node.Labels, "node-label", nil, "label of the Node, as key=value")
	flags.StringSliceVar(&opts.Node.KubeletArgs, "kubelet-arg", nil, "further kubelet flag, as name=value")
	flags.StringVar(&opts.Node.ResolvConf, "resolv-conf", "", "resolver configuration for pods (default: no name server)")
}
