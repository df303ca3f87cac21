package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// maxReports bounds the reports of one description: each needs some ten requests.
const maxReports = 10

func newDescribe(e *env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "describe cluster/NAME",
		Short: "Show a cluster with its pools, machines, Jobs and Nodes",
		Long: `Show a Cluster (clusters.provisioning.cattle.io) as a tree: its conditions, pools, machines, Jobs, servers and Nodes. Each part
that is not ready has its pending step, the cause and the next step. 'why' shows more about one part.`,
		Example: `  {name} describe cluster/shop
  {name} describe cluster/shop -o json`,
		Args:              oneName,
		ValidArgsFunction: e.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, cluster, err := e.cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			description, err := e.describe(cmd.Context(), api, cluster)
			if err != nil {
				return err
			}
			if format == "" {
				return explain.RenderTree(e.Streams.Out, description)
			}
			return e.toTerminal(func(out io.Writer) error { return printDocument(out, format, description) })
		},
	}
	addFormatFlag(cmd, &format)
	return cmd
}

// describe reads a Cluster and its parts, and the reports about the parts that are not ready.
func (e *env) describe(ctx context.Context, api *inventory.API, cluster *provv1.Cluster) (*explain.Description, error) {
	tree := api.ClusterTree(ctx, cluster, e.Now())
	found := explain.Findings{Machines: map[string]*explain.Report{}, Deployments: map[string]*explain.Report{}}
	var err error
	if found.Cluster, err = e.explainCluster(ctx, api, cluster.Namespace, cluster.Name); err != nil {
		tree.Problems = append(tree.Problems, inventory.Plain(err))
	}
	for i, m := range explain.Unfinished(tree) {
		if i == maxReports {
			break
		}
		found.Machines[m.Name()] = explain.Machine(api.MachineSnapshot(ctx, m, e.Now()), e.called())
	}
	for i, deployment := range explain.Lacking(tree) {
		if i == maxReports {
			break
		}
		report, err := e.explainOther(ctx, api, cluster.Namespace, "MachineDeployment", deployment.Name)
		if err != nil {
			tree.Problems = append(tree.Problems, inventory.Plain(err))
			continue
		}
		found.Deployments[deployment.Name] = report
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("describing the Cluster %s: %w", cluster.Name, err)
	}
	return explain.Describe(tree, found, e.called()), nil
}

// cluster connects and gets the provisioning Cluster that an argument names.
func (e *env) cluster(ctx context.Context, arg string) (*inventory.API, *provv1.Cluster, error) {
	name, err := clusterName(arg)
	if err != nil {
		return nil, nil, err
	}
	api, namespace, err := e.connect()
	if err != nil {
		return nil, nil, err
	}
	cluster, err := api.Cluster(ctx, namespace, name)
	if err == nil && cluster == nil {
		err = api.NoClusterError(ctx, namespace, name, e.Name)
	}
	return api, cluster, err
}

// completeCluster completes cluster/NAME, and NAME without the word.
func (e *env) completeCluster(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return e.completeKinds(others(provisioningKind, ""), "cluster/")(cmd, args, toComplete)
}
