package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// maxReports bounds the reports of one description: each needs some ten requests.
const maxReports = 10

func newDescribe(e *env) *cobra.Command {
	format, watch := "", false
	cmd := &cobra.Command{
		Use:   "describe cluster/NAME",
		Short: "Show a cluster with its pools, machines, Jobs and Nodes",
		Long: `Show a Cluster (clusters.provisioning.cattle.io) as a tree: its conditions, pools, machines, Jobs, servers and Nodes. Each part
that is not ready has its pending step, the cause and the next step. 'why' shows more about one part.`,
		Example: `  {name} describe cluster/shop
  {name} describe cluster/shop --watch
  {name} describe cluster/shop -o json`,
		Args:              oneName,
		ValidArgsFunction: e.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			api, cluster, err := e.cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if watch {
				return e.watchDescription(cmd.Context(), api, cluster, format)
			}
			description, err := e.describe(cmd.Context(), api, cluster)
			if err != nil {
				return err
			}
			return e.printDescription(format, description)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Print the tree again after each change, until the Cluster is gone.")
	addFormatFlag(cmd, &format)
	return cmd
}

func (e *env) printDescription(format string, description *explain.Description) error {
	if format == "" {
		return explain.RenderTree(e.Streams.Out, description)
	}
	return e.toTerminal(func(out io.Writer) error { return printDocument(out, format, description) })
}

// watchDescription prints the description of a Cluster each time that it changes, until the Cluster is
// gone or the context ends. Its parts are read again after each interval.
func (e *env) watchDescription(ctx context.Context, api *inventory.API, cluster *provv1.Cluster, format string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes, err := api.WatchCluster(ctx, cluster.Namespace, cluster.Name)
	if err != nil {
		return err
	}
	tick := time.NewTicker(e.Interval)
	defer tick.Stop()
	w := &awaiting{env: e, api: api, cluster: cluster, state: untilDeleted}
	separator := map[string]string{"": "\n", "yaml": "---\n"}[format]
	var printed []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case change, open := <-changes:
			if !open {
				return nil
			}
			if gone, err := w.take(change); err != nil || gone {
				return err
			}
		}
		description, err := e.describe(ctx, api, w.cluster)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		// Ages are not in the document, so that time alone changes nothing.
		document, err := json.Marshal(description)
		if err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		if bytes.Equal(document, printed) {
			continue
		}
		if printed != nil {
			if _, err := io.WriteString(e.Streams.Out, separator); err != nil {
				return err
			}
		}
		if err := e.printDescription(format, description); err != nil {
			return err
		}
		printed = document
	}
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
