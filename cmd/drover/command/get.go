package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// getOptions are the flags and arguments of get.
type getOptions struct {
	names         []string
	allNamespaces bool
	selector      string
	watch         bool
	output        *output
}

func newGet(e *env) *cobra.Command {
	o := &getOptions{}
	cmd := &cobra.Command{
		Use:        "get [NAME...]",
		SuggestFor: []string{"list", "ls", "machines", "nodes"},
		Short:      "List machines of all drivers",
		Long: `List machines of all drivers, with phase, address and the reason why they are not ready.
NAME is a machine or the CAPI Machine that owns it; without names all are listed.`,
		Example: `  {name} get
  {name} get -A -o wide
  {name} get -l cluster.x-k8s.io/cluster-name=demo -w
  {name} get web-1 -o jsonpath='{.items[0].address}'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: e.complete(machinesIn),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.check(cmd); err != nil {
				return err
			}
			if _, err := labels.Parse(o.selector); err != nil {
				return usagef(cmd, "the selector %q cannot be read: %w", o.selector, err)
			}
			if o.names = args; len(args) > 0 && (args[0] == "machines" || args[0] == "machine") {
				o.names = args[1:]
			}
			return e.get(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List the machines of all namespaces.")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "List only machines with these labels.")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "Watch the machines and print each change.")
	o.output = newOutput(cmd, true)
	cmd.AddCommand(newDrivers(e, "get drivers"), newClusters(e, "get clusters"))
	return cmd
}

func (e *env) get(ctx context.Context, o *getOptions) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	list := inventory.ListOptions{Namespace: namespace, Selector: o.selector}
	if o.allNamespaces {
		list.Namespace = ""
	}
	kinds, machines, err := e.list(ctx, api, list)
	if err != nil {
		return err
	}
	// A user without access to NodeDrivers sees the driver's name from the machine's kind.
	drivers, _ := api.Drivers(ctx)
	selected, missing := selectNamed(machines, o.names)
	api.NotePaused(ctx, list.Namespace, selected)
	api.NoteLeaving(ctx, list.Namespace, selected)
	if err := e.printMachines(o, listing.NewMachineList(selected, drivers)); err != nil {
		return err
	}
	if o.watch {
		if len(missing) > 0 {
			e.note("no machine is called %s yet", quoted(missing))
		}
		return e.watch(ctx, &watching{api: api, kinds: kinds, list: list, options: o, drivers: drivers, printed: selected})
	}
	switch {
	case len(missing) > 0 && list.Namespace == "":
		return fmt.Errorf("no machine is called %s%s", quoted(missing), e.insteadOf(missing[0], namespace))
	case len(missing) > 0:
		return fmt.Errorf("no machine is called %s in namespace %q (see '%s get -A')%s", quoted(missing), list.Namespace, e.Name, e.insteadOf(missing[0], namespace))
	}
	if len(selected) > 0 || !o.output.isTable() {
		return nil
	}
	// Why a table is empty.
	text := "No machines found."
	switch {
	case len(kinds) == 0:
		text = fmt.Sprintf("No machines found: no driver is active in this cluster (see '%s get drivers').", e.Name)
	case list.Namespace != "":
		text = fmt.Sprintf("No machines found in namespace %s.", list.Namespace)
	}
	_, err = fmt.Fprintln(e.Streams.ErrOut, text)
	return err
}

// list lists machines and the kinds that could be listed, and reports the omitted machines.
func (e *env) list(ctx context.Context, api *inventory.API, o inventory.ListOptions) ([]facts.Kind, []*facts.Machine, error) {
	kinds, err := api.Kinds(ctx)
	if err != nil {
		return nil, nil, err
	}
	machines, denied, err := api.Machines(ctx, kinds, o)
	if err != nil || len(denied) == 0 {
		return kinds, machines, err
	}
	kinds = slices.DeleteFunc(kinds, func(k facts.Kind) bool { return slices.Contains(denied, k.Resource) })
	where := "the whole cluster"
	if o.Namespace != "" {
		where = "namespace " + o.Namespace
	}
	group := "." + rkev1.MachineGroupVersion.Group
	e.note("not all machines are listed: you lack the right to list %s in %s", strings.Join(denied, group+", ")+group, where)
	return kinds, machines, nil
}

func quoted(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, ", ")
}

// printMachines prints one document, but one per machine in a watch, which has no end at which a
// list could be closed.
func (e *env) printMachines(o *getOptions, list listing.List[listing.Machine]) error {
	switch {
	case o.output.format() == "name":
		var errs []error
		for _, m := range list.Items {
			_, err := fmt.Fprintln(e.Streams.Out, m.Ref)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	case o.output.isTable():
		if len(list.Items) == 0 {
			return nil
		}
		return o.output.table(e.Streams.Out, listing.MachineTable(list.Items, o.allNamespaces, e.Now()))
	case !o.watch:
		return e.document(o.output, list)
	}
	for _, m := range list.Items {
		if err := e.document(o.output, m); err != nil {
			return err
		}
	}
	return nil
}

// selectNamed selects the machines that a user named, and returns the names without a machine.
func selectNamed(machines []*facts.Machine, names []string) (selected []*facts.Machine, missing []string) {
	if len(names) == 0 {
		return machines, nil
	}
	for _, name := range names {
		found := false
		for _, m := range machines {
			if !m.IsCalled(name) {
				continue
			}
			found = true
			if !slices.Contains(selected, m) {
				selected = append(selected, m)
			}
		}
		if !found {
			missing = append(missing, name)
		}
	}
	return selected, missing
}

// newDrivers returns the command, below root and, for users of kubectl's syntax, below get; call is
// its full name there.
func newDrivers(e *env, call string) *cobra.Command {
	var out *output
	cmd := &cobra.Command{
		Use:               "drivers [NAME...]",
		Aliases:           []string{"driver", "nodedrivers", "nodedriver", "nd"},
		Short:             "List node drivers",
		Long:              "List node drivers: whether they are active and ready, and which kind of machines they make.",
		Example:           "  {name} " + call + "\n  {name} " + call + " digitalocean -o json",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: e.complete(others("NodeDriver", "")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(cmd); err != nil {
				return err
			}
			return e.drivers(cmd.Context(), out, args)
		},
	}
	out = newOutput(cmd, true)
	return cmd
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
	selected, missing := all, []string(nil)
	if len(names) > 0 {
		selected = nil
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

// watching is a get that goes on.
type watching struct {
	api     *inventory.API
	kinds   []facts.Kind
	list    inventory.ListOptions
	options *getOptions
	drivers []v3.NodeDriver
	// printed are the machines the list at the start has shown.
	printed []*facts.Machine
}

// watch prints machines as they change, until the context ends.
func (e *env) watch(ctx context.Context, w *watching) error {
	if len(w.kinds) == 0 {
		return fmt.Errorf("nothing to watch: no driver is active in this cluster (see '%s get drivers')", e.Name)
	}
	// said is the last reported interruption; denied are the kinds whose watch was refused. When
	// all kinds are refused, the command ends.
	said, denied := "", map[string]bool{}
	versions := map[types.UID]string{}
	for _, m := range w.printed {
		versions[m.UID] = m.ResourceVersion
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	changes, err := w.api.Watch(ctx, w.kinds, w.list)
	if err != nil {
		return err
	}
	for change := range changes {
		if change.Err != nil {
			text := inventory.Plain(change.Err)
			if apierrors.IsForbidden(change.Err) {
				denied[text] = true
			}
			if len(denied) == len(w.kinds) {
				return change.Err
			}
			if said != text {
				said = text
				e.note("%s", text)
			}
			continue
		}
		m := change.Machine
		if versions[m.UID] == m.ResourceVersion && !change.Deleted {
			continue
		}
		versions[m.UID] = m.ResourceVersion
		if selected, _ := selectNamed([]*facts.Machine{m}, w.options.names); len(selected) == 0 {
			continue
		}
		w.api.NoteLeaving(ctx, m.Namespace, []*facts.Machine{m})
		listed := listing.NewMachine(m, w.drivers)
		if change.Deleted {
			listed.Phase, listed.Reason, listed.Message = "Deleted", "", ""
		}
		if err := e.printMachines(w.options, listing.List[listing.Machine]{Items: []listing.Machine{listed}}); err != nil {
			return err
		}
	}
	return nil
}
