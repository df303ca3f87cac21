package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

func newScale(e *env) *cobra.Command {
	dryRun, format := false, ""
	cmd := &cobra.Command{
		Use:   "scale cluster/NAME POOL=N [POOL=N...]",
		Short: "Change the number of machines of a cluster's pools",
		Long: `Change the number of machines of pools of a Cluster (clusters.provisioning.cattle.io). All pools are changed in one write or none
is. The API server's warnings say which machines are deleted. The command does not wait: 'wait' does.`,
		Example: `  {name} scale cluster/shop worker=3
  {name} scale cluster/shop worker=3 gpu=0 --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("a cluster/NAME and at least one POOL=N are needed")
			}
			_, err := quantities(args[1:])
			return err
		},
		ValidArgsFunction: e.completeScale,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := quantities(args[1:])
			if err != nil {
				return err
			}
			return e.scale(cmd.Context(), args[0], wanted, dryRun, format)
		},
	}
	addResultFlag(cmd, &format)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Change nothing; show the change and the API server's warnings.")
	return cmd
}

// quantities reads POOL=N.
func quantities(args []string) ([]facts.Quantity, error) {
	var all []facts.Quantity
	seen := map[string]bool{}
	for _, arg := range args {
		pool, number, found := strings.Cut(arg, "=")
		if !found || pool == "" {
			return nil, fmt.Errorf("%q is not POOL=N, such as worker=3", arg)
		}
		machines, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return nil, fmt.Errorf("the number of machines in %q is not a whole number", arg)
		case strings.HasPrefix(number, "-"):
			return nil, fmt.Errorf("the number of machines in %q is negative", arg)
		case err != nil, machines > facts.MaxQuantity:
			return nil, fmt.Errorf("the number of machines in %q is larger than %d", arg, facts.MaxQuantity)
		case seen[pool]:
			return nil, fmt.Errorf("pool %q is given twice", pool)
		}
		seen[pool] = true
		all = append(all, facts.Quantity{Pool: pool, Machines: machines})
	}
	return all, nil
}

func (e *env) scale(ctx context.Context, arg string, wanted []facts.Quantity, dryRun bool, format string) error {
	api, cluster, err := e.cluster(ctx, arg)
	if err != nil {
		return err
	}
	changes, cluster, err := api.Scale(ctx, cluster.Namespace, cluster.Name, wanted, dryRun)
	if err != nil {
		return err
	}
	end := ""
	if dryRun {
		end = " (dry run)"
	}
	var lines []string
	for _, c := range changes {
		text := fmt.Sprintf("pool %s has %d machines already", c.Pool, c.To)
		if c.From != c.To {
			text = fmt.Sprintf("pool %s scaled from %d to %d machines", c.Pool, c.From, c.To)
		}
		lines = append(lines, text+end)
	}
	return e.result(format, cluster.Name, cluster, lines...)
}

// completeScale completes the Cluster, then its pools.
func (e *env) completeScale(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return e.completeCluster(cmd, args, toComplete)
	}
	pools := func(ctx context.Context, api *inventory.API, namespace string) ([]string, error) {
		name, err := clusterName(args[0])
		if err != nil {
			return nil, err
		}
		cluster, err := api.Cluster(ctx, namespace, name)
		if err != nil || cluster == nil || cluster.Spec.RKEConfig == nil {
			return nil, err
		}
		var names []string
		for i := range cluster.Spec.RKEConfig.MachinePools {
			names = append(names, cluster.Spec.RKEConfig.MachinePools[i].Name+"=")
		}
		return names, nil
	}
	return matching(e.briefly(cmd, pools), nil, toComplete), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
