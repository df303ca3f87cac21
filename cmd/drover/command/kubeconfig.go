package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/capi/kubeconfig"
	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// kubeconfigOptions are the flags of kubeconfig.
type kubeconfigOptions struct {
	file              string
	merge, use, force bool
}

func newKubeconfig(e *env) *cobra.Command {
	o := &kubeconfigOptions{}
	cmd := &cobra.Command{
		Use:   "kubeconfig cluster/NAME",
		Short: "Get the kubeconfig of a cluster, or add it to yours",
		Long: `Print the kubeconfig of a cluster, write it to a file, or add it to your own kubeconfig. The context is called NAMESPACE/NAME.

The cluster is a Cluster of provisioning.cattle.io or a CAPI Cluster; NAME without a word before it means the same. Its control plane
writes the kubeconfig into the Secret NAME-kubeconfig. drover takes only an address, certificates, a
token or a password from it. It rejects a kubeconfig that names a command, a file or a proxy, because your kubectl would use them.
Only you can read the written files. A certificate expires: then get the kubeconfig again.`,
		Example: `  {name} kubeconfig cluster/one --merge --switch    # kubectl talks to cluster one from now on
  {name} kubeconfig cluster/one --file one.yaml
  kubectl --kubeconfig one.yaml get nodes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("one cluster/NAME is needed")
			}
			return nil
		},
		ValidArgsFunction: e.completeKinds(others("Cluster", ""), "cluster/"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.use && !o.merge:
				return usagef(cmd, "--switch goes with --merge")
			case o.force && !o.merge && o.file == "":
				return usagef(cmd, "--force goes with --merge or --file")
			}
			word, cluster, qualified := strings.Cut(args[0], "/")
			if !qualified {
				cluster = word
			} else if otherKinds[strings.ToLower(word)] != "Cluster" {
				return fmt.Errorf("%q is no Cluster: write NAME or cluster/NAME", args[0])
			}
			if err := inventory.CheckName(cluster); err != nil {
				return err
			}
			return e.kubeconfig(cmd.Context(), cluster, o)
		},
	}
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "File to write to; with --merge, the kubeconfig to add to instead of yours.")
	cmd.Flags().BoolVar(&o.merge, "merge", false, "Add it to your kubeconfig: the file of --file, else the first of KUBECONFIG, else ~/.kube/config.")
	cmd.Flags().BoolVar(&o.use, "switch", false, "With --merge: make it the current context.")
	cmd.Flags().BoolVar(&o.force, "force", false, "Replace a file with other content, or a cluster of the same name with another authority.")
	_ = cmd.MarkFlagFilename("file")
	return cmd
}

func (e *env) kubeconfig(ctx context.Context, cluster string, o *kubeconfigOptions) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	content, err := api.Kubeconfig(ctx, namespace, cluster)
	if errors.Is(err, inventory.ErrNoKubeconfig) {
		return fmt.Errorf("%w (see '%s why cluster/%s -n %s')", err, e.Name, cluster, namespace)
	}
	if err != nil {
		return err
	}
	// Parse keeps the safe parts of the control plane's kubeconfig.
	config, err := kubeconfig.Parse(content)
	if err != nil {
		return fmt.Errorf("the kubeconfig of Cluster %s is refused: %w", cluster, err)
	}
	found := access.NewKubeconfig(namespace, cluster, config)
	switch {
	case o.merge:
		files := clientcmd.NewDefaultPathOptions()
		files.LoadingRules.ExplicitPath = o.file
		path, err := found.Merge(files, o.use, o.force)
		if err != nil {
			return err
		}
		e.note("added context %s to %s", facts.Word(found.Name), path)
		if !o.use {
			e.note("use it with kubectl --context %s, or switch with kubectl config use-context %s", facts.Word(found.Name), facts.Word(found.Name))
		}
		return nil
	case o.file != "":
		return found.Write(o.file, o.force)
	}
	text, err := found.Text()
	if err != nil {
		return err
	}
	if _, err := e.Streams.Out.Write(text); err != nil {
		return fmt.Errorf("printing the kubeconfig: %w", err)
	}
	return nil
}
