package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/explain"
)

// deleteOptions are the flags of delete.
type deleteOptions struct {
	yes, wait bool
	timeout   time.Duration
	format    string
}

func newDelete(e *env) *cobra.Command {
	o := &deleteOptions{}
	cmd := &cobra.Command{
		Use:        "delete cluster/NAME",
		SuggestFor: []string{"destroy"},
		Short:      "Delete a cluster and its servers",
		Long: `Delete a Cluster (clusters.provisioning.cattle.io) with its machines, servers and Configs. The command lists its machines, asks for
confirmation, and then shows the remaining machines until the Cluster is gone. An interrupted command does not stop the deletion.
Nothing is forced: a server that cannot be removed keeps its machine and the Cluster, and 'describe' shows the cause.`,
		Example: `  {name} delete cluster/shop
  {name} delete cluster/shop --yes --wait=false`,
		Args:              oneName,
		ValidArgsFunction: e.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.timeout < 0 {
				return usagef(cmd, "--timeout is negative; 0 waits without a limit")
			}
			return e.delete(cmd.Context(), args[0], o)
		},
	}
	addResultFlag(cmd, &o.format)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
	cmd.Flags().BoolVar(&o.wait, "wait", true, "Wait until the Cluster is gone.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "Longest time to wait; 0 waits without a limit.")
	return cmd
}

func (e *env) delete(ctx context.Context, arg string, o *deleteOptions) error {
	api, cluster, err := e.cluster(ctx, arg)
	if err != nil {
		return err
	}
	if cluster.DeletionTimestamp == nil {
		shown := e.Streams.Out
		if o.format != "" {
			shown = e.Streams.ErrOut // standard output has the result only
		}
		if _, err := fmt.Fprint(shown, explain.Loss(api.ClusterTree(ctx, cluster, e.Now()))); err != nil {
			return err
		}
		if err := e.confirm("Write the Cluster's name to delete it: ", cluster.Name, o.yes); err != nil {
			return err
		}
		if err := api.DeleteCluster(ctx, cluster); err != nil {
			return err
		}
	}
	if !o.wait || o.format == "" {
		if err := e.result(o.format, cluster.Name, cluster, "deletion requested"); err != nil || !o.wait {
			return err
		}
	}
	w := &awaiting{env: e, api: api, cluster: cluster, state: untilDeleted, format: o.format}
	return w.await(ctx, o.timeout)
}
