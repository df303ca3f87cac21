package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// newDrivers is the command below root and, for who knows kubectl, below get; call is how it is called there.
func newDrivers(e *env, call string) *cobra.Command {
	var out *output
	cmd := &cobra.Command{
		Use:               "drivers [NAME...]",
		Aliases:           []string{"driver", "nodedrivers", "nodedriver", "nd"},
		Short:             "List node drivers",
		Long:              "List node drivers: whether they are active and ready, and which kind of machines they make.",
		Example:           "  {name} " + call + "\n  {name} " + call + " digitalocean -o json",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: e.completeDrivers,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}
			return e.drivers(cmd.Context(), out, args)
		},
	}
	out = newOutput(cmd, true)
	return withName(e, cmd)
}

func (e *env) drivers(ctx context.Context, out *output, names []string) error {
	api, err := e.api()
	if err != nil {
		return err
	}
	all, err := api.Drivers(ctx)
	if err != nil {
		return err
	}
	selected, missing := selectDrivers(all, names)
	list := listing.NewDriverList(selected)
	switch {
	case out.format() == "name":
		for _, d := range list.Items {
			if _, err := fmt.Fprintln(e.Streams.Out, "nodedriver."+v3.GroupVersion.Group+"/"+d.Name); err != nil {
				return err
			}
		}
	case out.isTable():
		err = out.table(e.Streams.Out, listing.DriverTable(list.Items, e.Now()))
	default:
		err = e.document(out, list)
	}
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("no driver is called %s", quoted(missing))
	}
	return err
}

func selectDrivers(all []v3.NodeDriver, names []string) (selected []v3.NodeDriver, missing []string) {
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		found := facts.DriverNamed(name, all)
		switch {
		case found == nil:
			missing = append(missing, name)
		case !slices.ContainsFunc(selected, func(d v3.NodeDriver) bool { return d.Name == found.Name }):
			selected = append(selected, *found)
		}
	}
	return selected, missing
}
