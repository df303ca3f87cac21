package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

// States of a Cluster that wait takes.
const (
	untilReady   = "ready"
	untilDeleted = "deleted"
)

// defaultTimeout is how long wait waits: a cluster is created in a few minutes at most clouds.
const defaultTimeout = 10 * time.Minute

func newWait(e *env) *cobra.Command {
	state, timeout, format := "", defaultTimeout, ""
	cmd := &cobra.Command{
		Use:   "wait cluster/NAME --for ready|deleted",
		Short: "Wait until a cluster is ready or deleted",
		Long: `Wait until a Cluster (clusters.provisioning.cattle.io) is ready or deleted. Standard error has the step that the Cluster waits for,
each time that it changes. A Cluster is ready if its condition Ready is True for the current specification.`,
		Example: `  {name} wait cluster/shop --for ready
  {name} wait cluster/shop --for deleted --timeout 30m`,
		Args:              oneName,
		ValidArgsFunction: e.completeCluster,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case state != untilReady && state != untilDeleted:
				return usagef(cmd, "--for takes ready or deleted")
			case timeout < 0:
				return usagef(cmd, "--timeout is negative; 0 waits without a limit")
			}
			name, err := clusterName(args[0])
			if err != nil {
				return err
			}
			api, namespace, err := e.connect()
			if err != nil {
				return err
			}
			cluster, err := api.Cluster(cmd.Context(), namespace, name)
			switch {
			case err != nil:
				return err
			case cluster == nil && state == untilDeleted:
				return e.result(format, name, nil, state)
			case cluster == nil:
				return api.NoClusterError(cmd.Context(), namespace, name, e.Name)
			}
			w := &awaiting{env: e, api: api, cluster: cluster, state: state, format: format}
			return w.await(cmd.Context(), timeout)
		},
	}
	addResultFlag(cmd, &format)
	cmd.Flags().StringVar(&state, "for", "", "State to wait for: ready or deleted.")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "Longest time to wait; 0 waits without a limit.")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{untilReady, untilDeleted}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// await waits until the Cluster has a state, and reports the progress on standard error. A timeout of
// 0 means no limit.
func (w *awaiting) await(ctx context.Context, timeout time.Duration) error {
	limited, cancel := context.WithCancel(ctx)
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	err := w.watch(limited)
	if limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("the Cluster %s is not %s after %s: %s (see '%s describe cluster/%s -n %s')",
			w.cluster.Name, w.state, timeout, w.said, w.Name, facts.Word(w.cluster.Name), w.cluster.Namespace)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return w.result(w.format, w.cluster.Name, w.cluster, w.state)
}

// awaiting is a wait for a state of a Cluster.
type awaiting struct {
	*env
	api *inventory.API
	// cluster is the Cluster as it was read last.
	cluster *provv1.Cluster
	state   string
	// format is the format of the result.
	format string
	// said is the last reported progress, and problem the last reported interruption.
	said, problem string
}

// watch returns nil when the Cluster has the state.
func (w *awaiting) watch(ctx context.Context) error {
	changes, err := w.api.WatchCluster(ctx, w.cluster.Namespace, w.cluster.Name)
	if err != nil {
		return err
	}
	// The machines of a Cluster that is being deleted change without a change of the Cluster.
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case change, open := <-changes:
			if !open {
				return ctx.Err()
			}
			if done, err := w.take(change); done || err != nil {
				return err
			}
		}
		w.progress(ctx)
	}
}

// take reads a change, and reports whether the Cluster has the state.
func (w *awaiting) take(change inventory.ClusterChange) (done bool, err error) {
	if change.Err != nil {
		if apierrors.IsForbidden(change.Err) {
			return false, change.Err
		}
		if text := inventory.Plain(change.Err); text != w.problem {
			w.problem = text
			w.note("%s", text)
		}
		return false, nil
	}
	gone := change.Cluster == nil || change.Cluster.UID != w.cluster.UID
	switch {
	case gone && w.state == untilDeleted:
		return true, nil
	case gone:
		return false, errors.New("the Cluster " + w.cluster.Name + " was deleted")
	}
	w.cluster = change.Cluster
	return w.state == untilReady && explain.Awaited(w.cluster) == "" && w.cluster.DeletionTimestamp == nil, nil
}

// progress reports the step that the Cluster waits for, if it is another than before.
func (w *awaiting) progress(ctx context.Context) {
	text := explain.Awaited(w.cluster)
	switch {
	case w.cluster.DeletionTimestamp != nil:
		text += "; " + explain.Remaining(w.api.ClusterTree(ctx, w.cluster, w.Now()))
	case w.state == untilDeleted:
		text = "its deletion was not requested"
	}
	if text != w.said && ctx.Err() == nil {
		w.said = text
		w.note("%s", text)
	}
}
