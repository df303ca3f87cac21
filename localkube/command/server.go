package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/server"
)

func serverCommand() *cobra.Command {
	var opts server.Options
	var token tokenFlags
	cmd := &cobra.Command{
		Use:   "server --data-dir DIR",
		Short: "Run a control plane, and a node with --node, until SIGTERM",
		Long: "Run a control plane, and a node with --node, until SIGTERM or SIGINT.\n" +
			"When all is ready the path of the administrator's kubeconfig is printed on stdout, and nothing else ever is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.JoinToken, err = token.read(); err != nil {
				return err
			}
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
	flags.StringVar(&opts.JoinURL, "join", "", "become a further server of the cluster at this URL")
	token.add(cmd, "server token of that cluster, which is in its DATA/pki/token-server")
	flags.BoolVar(&opts.RunNode, "node", false, "run pods on this machine as well; needs root, containerd, runc, iptables and CNI plugins")
	nodeFlags(cmd, &opts.Node)
	return cmd
}

func nodeFlags(cmd *cobra.Command, opts *node.Options) {
	flags := cmd.Flags()
	flags.StringVar(&opts.Name, "node-name", "", "name of this machine (default: its host name)")
	flags.StringSliceVar(&opts.Labels, "node-label", nil, "label of the Node, as key=value")
	flags.StringSliceVar(&opts.KubeletArgs, "kubelet-arg", nil, "further kubelet flag, as name=value")
	flags.StringVar(&opts.ResolvConf, "resolv-conf", "", "resolver configuration for pods (default: no name server)")
}

func agentCommand() *cobra.Command {
	var opts server.AgentOptions
	var token tokenFlags
	cmd := &cobra.Command{
		Use:   "agent --server URL --token TOKEN --data-dir DIR",
		Short: "Make this machine a node of a running cluster, until SIGTERM",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.Token, err = token.read(); err != nil {
				return err
			}
			return server.RunAgent(cmd.Context(), opts, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.DataDir, "data-dir", "", "where everything is kept (required)")
	flags.StringVar(&opts.Server, "server", "", "URL at which machines join, as the server prints it (required)")
	token.add(cmd, "agent token, which is in the server's DATA/pki/token-agent")
	flags.StringVar(&opts.Address, "node-ip", "", "address of this machine (default: by the default route)")
	nodeFlags(cmd, &opts.Node)
	return cmd
}

// tokenFlags are two ways to hand over a join token. The file is the better
// one: everybody on a machine can read the arguments of its processes.
type tokenFlags struct {
	text, file string
}

func (t *tokenFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&t.text, "token", "", "the "+what)
	cmd.Flags().StringVar(&t.file, "token-file", "", "file with the "+what)
	cmd.MarkFlagsMutuallyExclusive("token", "token-file")
}

func (t *tokenFlags) read() (string, error) {
	if t.file == "" {
		return t.text, nil
	}
	raw, err := os.ReadFile(t.file)
	if err != nil {
		return "", fmt.Errorf("reading join token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
