package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// answerLimit is how long a command of a diagnosis may take: what failed may be what answers it.
const answerLimit = 30 * time.Second

// maxLogLines is how many of the manager's last lines about a namespace a diagnosis shows.
const maxLogLines = 60

// Diagnose tells all that helps to understand a story that failed in a namespace: objects, events, the Jobs' logs, what the
// manager said. What cannot be had is said in its place.
func (t *Testbed) Diagnose(ctx context.Context, namespace string) string {
	var out bytes.Buffer
	for _, command := range [][]string{
		{"drover", "get", "--namespace", namespace},
		{"kubectl", "get", "machines.cluster.x-k8s.io,jobs,pods,secrets", "--namespace", namespace, "--output", "wide"},
		{"kubectl", "get", "drover", "--namespace", namespace, "--output", "yaml"},
		{"kubectl", "get", "events", "--namespace", namespace, "--sort-by", ".metadata.creationTimestamp"},
		{"kubectl", "logs", "--namespace", namespace, "--selector", "batch.kubernetes.io/job-name", "--all-containers", "--prefix", "--tail", "100"},
	} {
		fmt.Fprintf(&out, "\n---- %s\n", strings.Join(command, " "))
		out.Write(t.answer(ctx, command))
	}
	fmt.Fprintf(&out, "\n---- the manager on %s\n", namespace)
	out.WriteString(t.managerOn(ctx, namespace))
	return out.String()
}

// answer is what a command prints, with its error if there was one.
func (t *Testbed) answer(ctx context.Context, command []string) []byte {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "env", command...)
	cmd.Env = t.Env()
	text, err := cmd.CombinedOutput()
	if err != nil {
		text = fmt.Appendf(text, "(%v)\n", err)
	}
	return text
}

// managerOn are the manager's last lines that name the namespace.
func (t *Testbed) managerOn(ctx context.Context, namespace string) string {
	text := t.answer(ctx, []string{"kubectl", "logs", "--namespace", "drover-system", "deployment/drover-manager", "--tail", "20000"})
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, namespace) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	lines = lines[max(0, len(lines)-maxLogLines):]
	return strings.Join(slices.Concat(lines, []string{""}), "\n")
}
