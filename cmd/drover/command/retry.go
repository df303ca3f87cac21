package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/state"
)

// retryOptions are the flags and arguments of retry.
type retryOptions struct {
	names    []string
	selector string
	all      bool
}

func newRetry(e *env) *cobra.Command {
	o := &retryOptions{}
	cmd := &cobra.Command{
		Use:   "retry (NAME... | -l SELECTOR | --all)",
		Short: "Request another attempt immediately",
		Long: `Request another attempt to create or remove a machine's server immediately, even if no further attempt is due.
If the agent of a named machine gave up its plan (PlanFailed), Drover delivers the plan again.
The command sets the annotation ` + rkev1.RetryAnnotation + ` on the machine.

NAME is a machine, a CAPI Machine, or a MachineDeployment or MachineSet (md/NAME, ms/NAME). A MachineDeployment or MachineSet stands
for all its machines whose last attempt failed. -l selects such machines by their labels, --all selects them in the namespace.`,
		Example: `  {name} retry web-1
  {name} retry md/pool
  {name} retry -l cluster.x-k8s.io/cluster-name=demo
  {name} retry --all`,
		Args: func(_ *cobra.Command, args []string) error {
			given := 0
			for _, is := range []bool{len(args) > 0, o.selector != "", o.all} {
				if is {
					given++
				}
			}
			if given != 1 {
				return errors.New("either NAMEs, or -l, or --all is needed")
			}
			if _, err := labels.Parse(o.selector); err != nil {
				return fmt.Errorf("the selector %q cannot be read: %w", o.selector, err)
			}
			return nil
		},
		ValidArgsFunction: e.complete(machinesIn),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return e.retry(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "Retry the machines with these labels whose last attempt failed.")
	cmd.Flags().BoolVar(&o.all, "all", false, "Retry all machines of the namespace whose last attempt failed.")
	return cmd
}

// retry asks for an attempt of each machine that is meant. One that cannot be asked for does not
// keep the others.
func (e *env) retry(ctx context.Context, o *retryOptions) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	var machines []*facts.Machine
	var errs []error
	if len(o.names) == 0 {
		if machines, err = e.failed(ctx, api, inventory.ListOptions{Namespace: namespace, Selector: o.selector}, nil); err != nil {
			return err
		}
	}
	for _, name := range o.names {
		named, err := e.retryable(ctx, api, namespace, name)
		errs = append(errs, err)
		machines = append(machines, named...)
	}
	if len(machines) == 0 && errors.Join(errs...) == nil {
		e.note("there is nothing to try again: the last attempt of no such machine failed")
	}
	api.NotePaused(ctx, namespace, machines)
	for i, m := range machines {
		if slices.ContainsFunc(machines[:i], func(other *facts.Machine) bool { return other.UID == m.UID }) {
			continue
		}
		if err := api.Annotate(ctx, m, rkev1.RetryAnnotation, e.Now().UTC().Format(time.RFC3339Nano)); err != nil {
			errs = append(errs, err)
			continue
		}
		follow := fmt.Sprintf("follow it with '%s logs %s -n %s -f'", e.Name, m.Name, m.Namespace)
		if m.Phase() == rkev1.PhaseRunning { // its agent gave up its plan
			follow = fmt.Sprintf("see its result with '%s logs %s -n %s --agent'", e.Name, m.Name, m.Namespace)
		}
		if m.PausedBy() != "" {
			follow = fmt.Sprintf("nothing happens while the machine is paused: see '%s why %s -n %s'", e.Name, m.Name, m.Namespace)
		}
		_, err := fmt.Fprintf(e.Streams.Out, "%s: another attempt was asked for; %s\n", m.Ref(), follow)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// retryable are the machines that a name means.
func (e *env) retryable(ctx context.Context, api *inventory.API, namespace, name string) ([]*facts.Machine, error) {
	word, rest, qualified := strings.Cut(name, "/")
	if kind := otherKinds[strings.ToLower(word)]; qualified && (kind == "MachineDeployment" || kind == "MachineSet") {
		if err := inventory.CheckName(rest); err != nil {
			return nil, err
		}
		owned, err := api.CAPIMachinesOf(ctx, namespace, word, rest)
		if err != nil {
			return nil, err
		}
		return e.failed(ctx, api, inventory.ListOptions{Namespace: namespace}, func(m *facts.Machine) bool { return slices.Contains(owned, m.CAPIMachineName()) })
	}
	target, err := e.find(ctx, api, namespace, name)
	if err != nil {
		return nil, err
	}
	m := target.Machine
	switch {
	case m == nil:
		return nil, e.noInfraMachine(target, name)
	case planFailed(target.CAPIMachine):
		return []*facts.Machine{m}, nil
	case m.Phase() == rkev1.PhaseRunning:
		return nil, fmt.Errorf("%s runs: there is nothing to try again", m.Name)
	}
	if err := bootstrapLost(m); err != nil {
		return nil, err
	}
	return []*facts.Machine{m}, nil
}

// planFailed reports whether the agent of a machine gave up its plan.
func planFailed(m *clusterv1.Machine) bool {
	if m == nil {
		return false
	}
	c := meta.FindStatusCondition(m.Status.Conditions, rkev1.PlanAppliedCondition)
	return c != nil && c.Reason == rkev1.PlanFailedReason
}

// bootstrapLost is an error for a machine that has its server, on which the bootstrap data failed
// or did not arrive (docs/userdata.md).
func bootstrapLost(m *facts.Machine) error {
	c := m.Condition(rkev1.BootstrapDeliveredCondition)
	if c == nil || c.Status != metav1.ConditionFalse || m.DeletionTimestamp != nil {
		return nil
	}
	what := "failed"
	if c.Reason == rkev1.NotDeliveredReason {
		what = "did not arrive"
	}
	return fmt.Errorf("%s has a server on which the bootstrap data %s (%s), and no other attempt follows: delete the machine to have another one made", m.Name, what, c.Reason)
}

// failed lists the machines whose last attempt failed, and those that wait for another machine
// after its attempt failed.
func (e *env) failed(ctx context.Context, api *inventory.API, list inventory.ListOptions, pick func(*facts.Machine) bool) ([]*facts.Machine, error) {
	_, machines, err := e.list(ctx, api, list)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(machines, func(m *facts.Machine) bool {
		last := m.Status.LastAttempt
		held := []string{rkev1.WaitingForQuotaReason, rkev1.WaitingForCapacityReason, rkev1.WaitingForRateLimitReason}
		create := m.Condition(rkev1.CreateJobCondition)
		failed := last != nil && last.Outcome != string(state.Succeeded) || create != nil && slices.Contains(held, create.Reason)
		if pick != nil && !pick(m) {
			return true
		}
		if err := bootstrapLost(m); err != nil {
			e.note("%w", err)
			return true
		}
		return !failed
	}), nil
}
