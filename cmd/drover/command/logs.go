package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/cmd/drover/agentlog"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/joblog"
	"github.com/drover-project/drover/state"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	follow, agent bool
	want          joblog.Want
}

func newLogs(e *env) *cobra.Command {
	o := &logsOptions{}
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of the driver, or of the agent on the server",
		Long: `Print the driver's log: live while a Job runs, afterwards the saved part. Standard error names the printed log.

-f follows the log until the Job ends. If a machine has had no attempt yet, -f waits for the first Job; with --operation remove it
waits for the Job of a removal that has not begun. If the machine's attempts have ended, -f prints the saved log.

--agent prints the agent's report about its plan: why an attempt failed, the output of its instructions, and the probes that are not
healthy. The report comes from the machine's plan Secret. The output of instructions may contain secrets: do not share it.`,
		Example: `  {name} logs web-1 -f
  {name} logs web-1 --previous
  {name} logs web-1 -f --operation remove
  {name} logs web-1 --operation create --attempt 2
  {name} logs web-1 --agent`,
		Args:              oneName,
		ValidArgsFunction: e.completeOneMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.agent && *o != logsOptions{agent: true}:
				return usagef(cmd, "--agent goes with no other flag of logs")
			case o.agent:
				return e.agentLog(cmd.Context(), args[0])
			case o.want.Number < 0:
				return usagef(cmd, "--attempt counts from 1")
			case o.want.Previous && o.want != joblog.Want{Previous: true}:
				return usagef(cmd, "--previous goes with neither --attempt nor --operation")
			case !slices.Contains([]state.Operation{"", state.Create, state.Remove}, state.Operation(o.want.Operation)):
				return usagef(cmd, "--operation is create or remove, not %q", o.want.Operation)
			}
			return e.logs(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "Follow the log until the Job ends.")
	cmd.Flags().Int32Var(&o.want.Number, "attempt", 0, "Number of the attempt; default: the newest.")
	cmd.Flags().StringVar(&o.want.Operation, "operation", "", "create or remove; default: the operation of the newest attempt.")
	cmd.Flags().BoolVarP(&o.want.Previous, "previous", "p", false, "Print the log of the attempt before the newest.")
	cmd.Flags().BoolVar(&o.agent, "agent", false, "Print the report of the agent on the server, not the driver's log.")
	_ = cmd.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions([]string{"create", "remove"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// agentLog prints the reports of a machine's agent.
func (e *env) agentLog(ctx context.Context, name string) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	target, err := e.find(ctx, api, namespace, name)
	if err != nil {
		return err
	}
	if target.CAPIMachine == nil {
		return fmt.Errorf("%s has no CAPI Machine, and so no agent (see '%s why %s')", name, e.Name, name)
	}
	secret, err := api.PlanSecret(ctx, target.CAPIMachine)
	if err != nil {
		return err
	}
	return e.filtered(func(out io.Writer) error { return agentlog.Write(out, secret) })
}

func (e *env) logs(ctx context.Context, name string, o *logsOptions) error {
	api, m, err := e.machine(ctx, name)
	if err != nil {
		return err
	}
	s := api.Attempts(ctx, m)
	all := joblog.Attempts(s)
	removal := joblog.Want{Operation: string(state.Remove)}
	if o.follow && o.want == removal && !slices.ContainsFunc(all, func(a *joblog.Attempt) bool { return a.Operation == removal.Operation }) {
		e.note("%s: waiting for the Job that removes its server (phase %s)", m.Name, m.Phase())
		return e.follow(ctx, api, m.Namespace, labels.Set{rkev1.MachineUIDLabel: string(m.UID), rkev1.OperationLabel: removal.Operation})
	}
	attempt, err := joblog.Pick(all, o.want)
	if errors.Is(err, joblog.ErrNothing) {
		// The first attempt is waited for.
		if !o.follow || m.Phase() == rkev1.PhaseRunning {
			if len(s.Problems) > 0 {
				return fmt.Errorf("no log of %s was found; what could not be read: %s", m.Name, strings.Join(s.Problems, "; "))
			}
			return fmt.Errorf("no attempt was made for %s yet, so no log exists; '%s why %s -n %s' shows why", m.Name, e.Name, m.Name, m.Namespace)
		}
		e.note("%s: waiting for a Job (phase %s)", m.Name, m.Phase())
		return e.follow(ctx, api, m.Namespace, labels.Set{rkev1.MachineUIDLabel: string(m.UID)})
	}
	if err != nil {
		return err
	}
	if attempt.Running() || attempt.Text == "" {
		return e.podLog(ctx, api, m, attempt, o)
	}
	e.note("%s of %s, %s (%s)", attempt, m.Name, strings.ToLower(attempt.Outcome), attempt.Origin)
	// Control characters are removed for pipes too, because most of them end in a pager.
	return e.filtered(func(out io.Writer) error {
		_, err := io.WriteString(out, strings.TrimSuffix(attempt.Text, "\n")+"\n")
		return err
	})
}

// podLog prints the log of an attempt's pod.
func (e *env) podLog(ctx context.Context, api *inventory.API, m *facts.Machine, attempt *joblog.Attempt, o *logsOptions) error {
	if attempt.Job == nil {
		return fmt.Errorf("the log of %s is not kept any more: its Job is gone", attempt)
	}
	pods, err := api.PodsOf(ctx, attempt.Job)
	if err != nil {
		return err
	}
	if o.follow && attempt.Running() {
		e.note("%s, running (Job %s)", attempt, attempt.Job.Name)
		return e.follow(ctx, api, attempt.Job.Namespace, labels.Set{"batch.kubernetes.io/job-name": attempt.Job.Name})
	}
	if len(pods) == 0 || !joblog.Started(&pods[0]) {
		return fmt.Errorf("the pod of %s has not started; -f waits for it, '%s why %s -n %s' shows why", attempt, e.Name, m.Name, m.Namespace)
	}
	e.note("%s (pod %s)", attempt, pods[0].Name)
	return e.filtered(func(out io.Writer) error { return joblog.Stream(ctx, api.Kube, &pods[0], false, out) })
}

func (e *env) follow(ctx context.Context, api *inventory.API, namespace string, set labels.Set) error {
	pod, err := joblog.AwaitPod(ctx, api.Kube, namespace, set, func(text string) { e.note("%s", text) })
	if err != nil {
		return err
	}
	return e.filtered(func(out io.Writer) error { return joblog.Stream(ctx, api.Kube, pod, true, out) })
}

// toTerminal writes untrusted text to the output and escapes control characters: a driver's output
// or a status must not control the terminal.
func (e *env) toTerminal(write func(io.Writer) error) error {
	if !access.IsTerminal(e.Streams.Out) {
		return write(e.Streams.Out)
	}
	return e.filtered(write)
}

// filtered writes text without control characters.
func (e *env) filtered(write func(io.Writer) error) error {
	out := &facts.Terminal{Out: e.Streams.Out}
	return errors.Join(write(out), out.Flush())
}

// note prints a message to the user that is not part of the output.
func (e *env) note(format string, args ...any) {
	_, _ = fmt.Fprintf(e.Streams.ErrOut, "# %s\n", inventory.Plain(fmt.Errorf(format, args...)))
}
