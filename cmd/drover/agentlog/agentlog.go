// Package agentlog prints an agent's reports about its plan: the progress, why the last attempt
// failed, the output of its instructions, and the unhealthy probes. It reads the data of a plan
// Secret and is pure. Package command prints it; package api/plan documents the keys.
package agentlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/drover-project/drover/advice"
	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// agentManager is the field manager of the agent's changes.
const agentManager = "drover-agent"

// Write writes a plan Secret's reports as text: failures first, then the output of instructions.
// The output is not redacted and may hold secrets that the instructions print. Nothing of the plan
// is written. Write returns an error if it cannot read or write a report.
func Write(out io.Writer, secret *corev1.Secret) error {
	data := secret.Data
	status, err := plan.DecodeAgentStatus(data[plan.KeyAgentStatus])
	if err != nil {
		return fmt.Errorf("reading the agent's status: %w", err)
	}
	var text strings.Builder
	agent(&text, secret, status)
	switch {
	case status.Step != "":
		fmt.Fprintf(&text, "\nAttempt %d failed at %s: %s\n", status.Attempt, status.Step, status.Message)
		if status.RetryAt != "" {
			fmt.Fprintf(&text, "It tries again at %s.\n", status.RetryAt)
		}
		section(&text, "the end of its output", []byte(status.Output))
	case status.Message == "" && plan.State(data[plan.KeyState]) == plan.StateFailed:
		text.WriteString("\nThe agent gave up the plan and reported no cause.\n")
	case status.Message != "":
		fmt.Fprintf(&text, "\nThe agent cannot go on: %s\n%s.\n", status.Message, advice.NextStuck)
	}
	if status.Proxy != "" {
		fmt.Fprintf(&text, "\nIt calls the manager without its proxy, which does not answer: %s.\n", status.Proxy)
	}
	if status.Running != "" {
		fmt.Fprintf(&text, "\nIt is at %s.\n", status.Running)
	}
	probes, probesErr := plan.DecodeProbeStatuses(data[plan.KeyProbeStatuses])
	if probesErr != nil {
		probes, probesErr = nil, fmt.Errorf("reading the probes: %w", probesErr)
	}
	for _, name := range slices.Sorted(maps.Keys(probes)) {
		if probes[name].Healthy {
			fmt.Fprintf(&text, "Probe %s is healthy.\n", name)
			continue
		}
		fmt.Fprintf(&text, "Probe %s is not healthy: %s\n", name, cmp.Or(status.Probes[name], "it has not answered yet"))
	}
	outputErr := outputs(&text, data)
	_, err = io.WriteString(out, text.String())
	return errors.Join(err, probesErr, outputErr)
}

func agent(text *strings.Builder, secret *corev1.Secret, status plan.AgentStatus) {
	data := secret.Data
	switch {
	case len(data[plan.KeyAgentPublicKey]) == 0:
		text.WriteString("No agent has registered for this machine yet.\n")
	case status.Version != "":
		fmt.Fprintf(text, "Agent %s on %s.\n", status.Version, status.Platform)
	}
	if reported := lastReport(secret); !reported.IsZero() {
		fmt.Fprintf(text, "Its last report: %s.\n", reported.UTC().Format(time.RFC3339))
	}
	if seen := secret.Annotations[rkev1.AgentSeenAnnotation]; seen != "" {
		fmt.Fprintf(text, "It last renewed its access at %s; it renews it every %s.\n", seen, duration.HumanDuration(connect.TokenLife/2))
	}
	if len(data[plan.KeyPlan]) == 0 {
		text.WriteString("It has no plan yet.\n")
		return
	}
	its := "Its plan"
	if secret.Annotations[rkev1.CleansAnnotation] != "" {
		its = "Its plan, which cleans the host"
	}
	fmt.Fprintf(text, "%s: %s", its, cmp.Or(string(data[plan.KeyState]), "pending"))
	for _, counted := range []struct{ key, what string }{{plan.KeyFailureCount, "failed attempts"}, {plan.KeyLastApplyTime, "last attempt at"}} {
		if value := string(data[counted.key]); cmp.Or(value, "0") != "0" {
			fmt.Fprintf(text, ", %s %s", counted.what, value)
		}
	}
	text.WriteString(".\n")
}

// lastReport is the time at which the agent last changed its plan Secret; zero if it never did. The
// API server records it for each field manager, and the agent is the field manager that its user
// agent names.
func lastReport(secret *corev1.Secret) time.Time {
	var last time.Time
	for _, entry := range secret.ManagedFields {
		if entry.Manager == agentManager && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// outputs writes the recorded outputs: of the failed attempt, else of the successful one, and
// of periodic instructions.
func outputs(text *strings.Builder, data map[string][]byte) error {
	key, of := plan.KeyFailedOutput, "failed"
	if len(data[key]) == 0 || plan.State(data[plan.KeyState]) == plan.StateSucceeded {
		key, of = plan.KeyAppliedOutput, "succeeded"
	}
	kept, err := plan.DecodeOutput[map[string][]byte](data[key])
	if err != nil {
		return fmt.Errorf("reading the output of instructions: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		section(text, "instruction "+name+", of the last attempt that "+of, kept[name])
	}
	periodic, err := plan.DecodeOutput[map[string]plan.PeriodicOutput](data[plan.KeyPeriodicOutput])
	if err != nil {
		return fmt.Errorf("reading the output of periodic instructions: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(periodic)) {
		p := periodic[name]
		section(text, fmt.Sprintf("periodic instruction %s, exit code %d", name, p.ExitCode), slices.Concat(p.Stdout, p.Stderr))
	}
	return nil
}

// maxSection bounds an output in bytes. Our agent saves no more; another agent may.
const maxSection = 128 << 10

// section writes the end of an output under a title; nothing when it is empty.
func section(text *strings.Builder, title string, output []byte) {
	if said := plan.Tail(strings.TrimRight(string(output), "\n"), maxSection); said != "" {
		fmt.Fprintf(text, "\n--- %s\n%s\n", title, said)
	}
}
