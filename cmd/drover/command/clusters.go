package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// clustersOptions are the flags of clusters.
type clustersOptions struct {
	allNamespaces bool
	selector      string
	output        *output
}

// newClusters returns the command, below root and, for users of kubectl's syntax, below get; call is
// its full name there.
func newClusters(e *env, call string) *cobra.Command {
	o := &clustersOptions{}
	cmd := &cobra.Command{
		Use:               "clusters [NAME...]",
		Aliases:           []string{"cluster", listing.ClusterRef, "clusters.provisioning.cattle.io"},
		Short:             "List clusters",
		Long:              "List clusters (clusters.provisioning.cattle.io): version, machines made and wanted, and the reason why they are not ready.",
		Example:           "  {name} " + call + "\n  {name} " + call + " -A -o wide\n  {name} " + call + " shop -o json",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: e.complete(others(provisioningKind, "")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.check(cmd); err != nil {
				return err
			}
			if _, err := labels.Parse(o.selector); err != nil {
				return usagef(cmd, "the selector %q cannot be read: %w", o.selector, err)
			}
			return e.clusters(cmd.Context(), o, args)
		},
	}
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List the Clusters of all namespaces.")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "List only Clusters with these labels.")
	o.output = newOutput(cmd, true)
	return cmd
}

func (e *env) clusters(ctx context.Context, o *clustersOptions, args []string) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	if o.allNamespaces {
		namespace = ""
	}
	all, err := api.Clusters(ctx, inventory.ListOptions{Namespace: namespace, Selector: o.selector})
	if err != nil {
		return err
	}
	selected, missing, err := selectClusters(all, args)
	if err != nil {
		return err
	}
	if err := e.printClusters(o, listing.NewClusterList(selected)); err != nil {
		return err
	}
	if len(missing) == 1 && namespace != "" {
		return api.NoClusterError(ctx, namespace, missing[0], e.Name)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no cluster.provisioning.cattle.io is called %s", quoted(missing))
	}
	if len(selected) > 0 || !o.output.isTable() {
		return nil
	}
	text := "No Clusters found."
	if namespace != "" {
		text = fmt.Sprintf("No Clusters found in namespace %s.", namespace)
	}
	_, err = fmt.Fprintln(e.Streams.ErrOut, text)
	return err
}

func (e *env) printClusters(o *clustersOptions, list listing.List[listing.Cluster]) error {
	switch {
	case o.output.format() == "name":
		for _, c := range list.Items {
			if _, err := fmt.Fprintln(e.Streams.Out, c.Ref); err != nil {
				return err
			}
		}
		return nil
	case !o.output.isTable():
		return e.document(o.output, list)
	case len(list.Items) == 0:
		return nil
	}
	return o.output.table(e.Streams.Out, listing.ClusterTable(list.Items, o.allNamespaces, e.Now()))
}

// selectClusters selects the Clusters that a user named, and returns the names without a Cluster.
func selectClusters(all []*provv1.Cluster, args []string) (selected []*provv1.Cluster, missing []string, err error) {
	if len(args) == 0 {
		return all, nil, nil
	}
	wanted, found := map[string]bool{}, map[string]bool{}
	var names []string
	for _, arg := range args {
		name, err := clusterName(arg)
		if err != nil {
			return nil, nil, err
		}
		wanted[name] = true
		names = append(names, name)
	}
	for _, c := range all {
		if wanted[c.Name] {
			found[c.Name] = true
			selected = append(selected, c)
		}
	}
	for _, name := range names {
		if !found[name] {
			missing = append(missing, name)
			found[name] = true // once
		}
	}
	return selected, missing, nil
}

// provisioningKind is the kind of provisioning Clusters for Names, beside Cluster API's Cluster.
const provisioningKind = "Cluster.provisioning"

// clusterName returns the name in an argument that names a provisioning Cluster: NAME, cluster/NAME
// or cluster.provisioning.cattle.io/NAME.
func clusterName(arg string) (string, error) {
	word, name, qualified := strings.Cut(arg, "/")
	if !qualified {
		return arg, inventory.CheckName(arg)
	}
	switch strings.ToLower(word) {
	case "cluster", "clusters", "cl", listing.ClusterRef, "clusters.provisioning.cattle.io":
		return name, inventory.CheckName(name)
	}
	return "", fmt.Errorf("%q does not name a cluster.provisioning.cattle.io: write NAME or cluster/NAME", arg)
}
