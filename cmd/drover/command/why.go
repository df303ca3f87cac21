package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

func newWhy(e *env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:        "why NAME",
		SuggestFor: []string{"explain", "status"},
		Short:      "Show why a machine or a cluster waits or failed, and the next steps",
		Long: `Show on one screen why a machine or a cluster waits or failed, and the next steps.

NAME is a machine, a CAPI Machine, a MachineDeployment or MachineSet (md/NAME, ms/NAME), a Cluster (cluster/NAME), an
RKEControlPlane (rkecontrolplane/NAME, rcp/NAME), or a driver (driver/NAME). If no object has the name
any more, the command shows the remains of the object.`,
		Example: `  {name} why web-1
  {name} why md/pool
  {name} why cluster/one
  {name} why rkecontrolplane/one
  {name} why driver/digitalocean
  {name} why web-1 -o json`,
		Args:              oneName,
		ValidArgsFunction: e.completeKinds(machinesIn, "cluster/", "driver/", "md/", "ms/", "rkecontrolplane/", "rcp/"),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, namespace, err := e.connect()
			if err != nil {
				return err
			}
			report, err := e.explain(cmd.Context(), api, namespace, args[0])
			if err != nil {
				return err
			}
			manager, err := api.Manager(cmd.Context(), e.Now(), e.Patience)
			if err != nil {
				report.Problems = append(report.Problems, inventory.Plain(err))
			}
			explain.AddManager(report, manager, e.Now())
			if format == "" {
				return explain.Render(e.Streams.Out, report)
			}
			return e.toTerminal(func(out io.Writer) error { return printDocument(out, format, report) })
		},
	}
	addFormatFlag(cmd, &format)
	return cmd
}

// explain resolves NAME and explains the object.
func (e *env) explain(ctx context.Context, api *inventory.API, namespace, name string) (*explain.Report, error) {
	word, rest, qualified := strings.Cut(name, "/")
	if kind := otherKinds[strings.ToLower(word)]; qualified && kind != "" {
		return e.explainOther(ctx, api, namespace, kind, rest)
	}
	target, err := e.find(ctx, api, namespace, name)
	if _, unknown := errors.AsType[*inventory.UnknownKindError](err); unknown {
		return nil, &usageError{fmt.Errorf("%w; why also takes cluster, rkecontrolplane (rcp), machinedeployment (md), machineset (ms), driver", err), e.Name + " why --help"}
	}
	notFound, isNotFound := errors.AsType[*inventory.NotFoundError](err)
	// events and state of this name belong to those objects
	if err != nil && !isNotFound || isNotFound && len(notFound.Others) > 0 {
		return nil, err
	}
	if err != nil && qualified {
		name = rest
	}
	snapshot := api.Snapshot(ctx, target, namespace, name, e.Now())
	if isNotFound {
		snapshot.Unseen = notFound.Unseen
	}
	report, gone := e.explainSnapshot(snapshot, err)
	if gone != nil && !qualified {
		if other := e.explainBare(ctx, api, namespace, name); other != nil {
			return other, nil
		}
	}
	return report, gone
}

// explainBare explains a name without a kind that no machine has: a driver, a cluster, a control
// plane, or the remains of a cluster. It returns nil if nothing has the name.
func (e *env) explainBare(ctx context.Context, api *inventory.API, namespace, name string) *explain.Report {
	if driver, err := e.explainDriver(ctx, api, name); err == nil {
		return driver
	}
	if cluster, err := e.explainCluster(ctx, api, namespace, name); err == nil {
		return cluster
	}
	if controlPlane, err := e.explainControlPlane(ctx, api, namespace, name); err == nil {
		return controlPlane
	}
	return explain.GoneCluster(api.ClusterRemains(ctx, namespace, name), e.called())
}

// explainOther explains an object that is not a machine.
func (e *env) explainOther(ctx context.Context, api *inventory.API, namespace, kind, name string) (*explain.Report, error) {
	if err := inventory.CheckName(name); err != nil {
		return nil, err
	}
	switch kind {
	case "NodeDriver":
		return e.explainDriver(ctx, api, name)
	case "Cluster":
		report, err := e.explainCluster(ctx, api, namespace, name)
		if errors.Is(err, errNoCluster) {
			left := api.ClusterRemains(ctx, namespace, name)
			if report = explain.GoneCluster(left, e.called()); report != nil {
				return report, nil
			}
			what := "nothing with its label is left"
			if len(left.Problems) > 0 {
				what = "its remains cannot be determined: " + strings.Join(left.Problems, "; ")
			}
			return nil, fmt.Errorf("no Cluster %q in namespace %q (see 'kubectl get clusters.cluster.x-k8s.io -A'), and %s", name, namespace, what)
		}
		return report, err
	case "RKEControlPlane":
		return e.explainControlPlane(ctx, api, namespace, name)
	}
	// A Snapshot lists each part that cannot be read. So an unreachable API server is reported here,
	// once, before a Snapshot is taken.
	if _, err := api.Kinds(ctx); err != nil {
		return nil, err
	}
	snapshot := api.Snapshot(ctx, inventory.Target{}, namespace, name, e.Now())
	if len(snapshot.Owners) == 0 { // the remains of a machine of this name are not of interest
		snapshot.Asked, snapshot.State = kind, nil
		snapshot.Events = slices.DeleteFunc(snapshot.Events, func(event corev1.Event) bool { return event.InvolvedObject.Kind != kind })
	}
	return e.explainSnapshot(snapshot, nil)
}

// explainSnapshot explains a snapshot, or returns notFound when there is nothing in it.
func (e *env) explainSnapshot(s *facts.Snapshot, notFound error) (*explain.Report, error) {
	if !explain.KnowsAnything(s) {
		if notFound == nil {
			notFound = fmt.Errorf("no MachineDeployment or MachineSet %q in namespace %q", s.Name, s.Namespace)
			if len(s.Problems) > 0 {
				notFound = fmt.Errorf("%w that could be read: %s", notFound, strings.Join(s.Problems, "; "))
			}
		}
		return nil, notFound
	}
	return explain.Machine(s, e.called()), nil
}

func (e *env) explainDriver(ctx context.Context, api *inventory.API, name string) (*explain.Report, error) {
	drivers, err := api.Drivers(ctx)
	if err != nil {
		return nil, err
	}
	driver := facts.DriverNamed(name, drivers)
	if driver == nil {
		return nil, fmt.Errorf("no driver %q (see '%s get drivers')", name, e.Name)
	}
	return explain.Driver(api.DriverSnapshot(ctx, driver, e.Now()), e.called()), nil
}

func (e *env) explainCluster(ctx context.Context, api *inventory.API, namespace, name string) (*explain.Report, error) {
	snapshot, err := api.ClusterSnapshot(ctx, namespace, name, e.Now())
	if err != nil {
		return nil, err
	}
	if snapshot != nil && snapshot.Provisioning != nil {
		return explain.Cluster(snapshot, e.called()), nil
	}
	// Nothing may be rendered yet, or the CAPI Cluster of this name has another owner.
	if found, err := api.Provisioning(ctx, namespace, name); err == nil && found != nil {
		return explain.Provisioning(*found, e.Now(), e.called()), nil
	}
	if snapshot != nil {
		return explain.Cluster(snapshot, e.called()), nil
	}
	return nil, errNoCluster
}

// errNoCluster is of a Cluster that does not exist.
var errNoCluster = errors.New("no Cluster of this name exists")

func (e *env) explainControlPlane(ctx context.Context, api *inventory.API, namespace, name string) (*explain.Report, error) {
	snapshot, err := api.ControlPlaneSnapshot(ctx, namespace, name, e.Now())
	if err != nil {
		return nil, err
	}
	if snapshot == nil {
		return nil, fmt.Errorf("no RKEControlPlane %q in namespace %q (see 'kubectl get rkecontrolplanes -A')", name, namespace)
	}
	return explain.ControlPlane(snapshot, e.called()), nil
}
