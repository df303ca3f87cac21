package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// NewNamespace makes a story's namespace.
func (t *Testbed) NewNamespace(ctx context.Context, name string) error {
	_, err := t.run(ctx, "kubectl", "create", "namespace", name)
	return err
}

// DropNamespace deletes a story's namespace without waiting.
func (t *Testbed) DropNamespace(ctx context.Context, name string) {
	if _, err := t.run(ctx, "kubectl", "delete", "namespace", name, "--wait=false", "--ignore-not-found"); err != nil {
		t.say("%v\n", err)
	}
}

// KubeconfigFor writes a kubeconfig whose default namespace is the given one.
func (t *Testbed) KubeconfigFor(namespace, path string) error {
	config, err := clientcmd.LoadFromFile(t.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	return clientcmd.WriteToFile(*config, path)
}

// Path is where a story finds drover, kubectl and localcloud.
func (t *Testbed) Path() string { return t.BinDir + ":" + t.in(shimsDir) }

// StoryEnv is the environment of stories: the file server's address and checksum of the plugin.
func (t *Testbed) StoryEnv(ctx context.Context) ([]string, error) {
	url, checksum, err := t.PublishPlugin(ctx, pluginBinary)
	if err != nil {
		return nil, err
	}
	return []string{"PLUGIN_URL=" + url, "PLUGIN_CHECKSUM=" + checksum, "CLOUD_DIR=" + t.CloudDir(), "BIN=" + t.BinDir, "TMPDIR=" + os.TempDir()}, nil
}

// answerLimit is the time limit of a diagnostic command: the component that answers it may have
// failed.
const answerLimit = 30 * time.Second

// managerSays prints the manager's last lines about a namespace.
const managerSays = `kubectl logs -n drover-system deployment/drover-manager --tail 20000 | grep -F -- "$1" | tail -n 60`

// Diagnose prints all that helps to understand a story that failed in a namespace: objects, events,
// the Jobs' logs, the manager's log. An error is printed in place of a part that cannot be read.
func (t *Testbed) Diagnose(ctx context.Context, namespace string) string {
	var out bytes.Buffer
	show := func(title string, command ...string) {
		fmt.Fprintf(&out, "\n---- %s\n", title)
		out.Write(t.answer(ctx, command))
	}
	for _, command := range [][]string{
		{"drover", "get", "--namespace", namespace},
		{"kubectl", "get", "machines.cluster.x-k8s.io,jobs,pods,secrets", "--namespace", namespace, "--output", "wide"},
		{"kubectl", "get", "drover", "--namespace", namespace, "--output", "yaml"},
		{"kubectl", "get", "events", "--namespace", namespace, "--sort-by", ".metadata.creationTimestamp"},
		{"kubectl", "logs", "--namespace", namespace, "--selector", "batch.kubernetes.io/job-name", "--all-containers", "--prefix", "--tail", "100"},
	} {
		show(strings.Join(command, " "), command...)
	}
	show("agents and their servers", "sh", "-c", agentsSay, "sh", namespace)
	show("the manager on "+namespace, "sh", "-c", managerSays, "sh", namespace)
	return out.String()
}

// agentsSay prints the agent's report of each machine in a namespace that has an agent, and the end
// of the server's journal about the agent and the distribution.
const agentsSay = `for name in $(kubectl get machines.cluster.x-k8s.io -n "$1" -o jsonpath='{range .items[?(@.spec.bootstrap.configRef.kind=="RKEBootstrap")]}{.metadata.name}{"\n"}{end}'); do
	echo "-- $name"
	drover logs "machine/$name" -n "$1" --agent
	timeout 10 drover ssh "$name" -n "$1" -- journalctl -u drover-agent -u k3s -u k3s-agent -o short-iso -n 120 --no-pager
done`

// answer returns a command's output, followed by its error if it failed.
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
