package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	localcloud "github.com/drover-project/drover/e2e/cloud"
)

// maxSearched is the size of the largest file that is searched.
const maxSearched = 64 << 20

// canary is a namespace whose every secret is a marker.
type canary struct {
	*testing.T
	*secrets
	namespace string
}

// canaryStory plants a marker in every secret that a user hands over, lets one machine succeed and one fail, and then looks
// for the markers everywhere but in the Secrets and in the driver's own process.
func canaryStory(t *testing.T) {
	t.Helper()
	c := newCanary(t)
	stop := c.watchProcesses(t.Context(), 20*time.Millisecond)
	c.liveAndFail()
	c.searchEverywhere()
	stop()
	require.Empty(t, c.places(), "places where a secret is shown")

	// The search finds what is there: otherwise it would prove nothing.
	c.apply("kind: ConfigMap\napiVersion: v1\nmetadata: {name: planted}\ndata: {careless: " + c.known["bootstrap data"] + "}\n")
	c.searchObjects()
	require.Equal(t, []string{"bootstrap data in ConfigMap planted"}, c.places())
	for name, value := range map[string]string{"credential": c.known["credential"], "user data": c.known["user data"]} {
		c.search("a text that holds it", []byte("before "+value+" after"))
		require.True(t, c.seen[name+" in a text that holds it"])
	}
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{T: t, namespace: "canary-" + fmt.Sprint(time.Now().Unix()%100000), secrets: newSecrets()}
	require.NoError(t, bed.NewNamespace(t.Context(), c.namespace))
	t.Cleanup(func() { bed.DropNamespace(context.WithoutCancel(t.Context()), c.namespace) })
	secret, err := localcloud.Ask(t.Context(), bed.CloudDir(), "token", "add", c.namespace)
	require.NoError(t, err)
	c.remember("credential", strings.TrimSpace(secret))
	for _, name := range []string{"bootstrap data", "user data", "refused credential"} {
		c.remember(name, "marker"+rand.Text())
	}
	return c
}

// liveAndFail makes a machine that becomes a server and goes again, and two that fail: at the cloud, and at its login.
func (c *canary) liveAndFail() {
	c.Helper()
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: credential}
stringData: {accessToken: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: refused}
stringData: {accessToken: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: bootstrap}
stringData: {value: "#!/bin/sh\n: %s\n"}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec: {infrastructureRef: {apiGroup: rke.cattle.io, kind: RKECluster, name: c}}
---
apiVersion: rke.cattle.io/v1
kind: RKECluster
metadata: {name: c}
`, c.known["credential"], c.known["refused credential"], c.known["bootstrap data"]))
	for name, machine := range map[string]struct{ credential, size string }{
		"good": {"credential", "s-1vcpu-1gb"}, "toobig": {"credential", "s-1000vcpu"}, "stranger": {"refused", "s-1vcpu-1gb"},
	} {
		c.apply(fmt.Sprintf(`
apiVersion: rke-machine.cattle.io/v1
kind: DigitaloceanMachine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  region: nyc3
  size: %[3]s
  userdata: "#cloud-config\nwrite_files: [{path: /root/mine, content: %[4]s}]\n"
  common: {cloudCredentialSecretName: %[2]s}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  clusterName: c
  bootstrap: {dataSecretName: bootstrap}
  infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: DigitaloceanMachine, name: %[1]s}
`, name, machine.credential, machine.size, c.known["user data"]))
	}
	for name, phase := range map[string]string{"good": "Running", "toobig": "Failed", "stranger": "Failed"} {
		c.await(name, phase)
	}
}

func (c *canary) await(name, phase string) {
	c.Helper()
	var out []byte
	again := hereLook(c.TempDir(), bed.Kubeconfig(), []string{"kubectl", "get", "digitaloceanmachine", name, "--namespace", c.namespace, "-o", "jsonpath={.status.phase}"})
	for range looks(5 * time.Minute) {
		if out, _ = again(); string(out) == phase {
			return
		}
	}
	c.Fatalf("machine %s is %q, not %s: %s", name, out, phase, bed.Diagnose(c.Context(), c.namespace))
}

// run runs a command of the testbed in the namespace and returns all it printed, whether it failed or not.
func (c *canary) run(stdin, name string, args ...string) []byte {
	c.Helper()
	command := exec.CommandContext(c.Context(), "env", append([]string{name, "--namespace", c.namespace}, args...)...)
	command.Env, command.Stdin = bed.Env(), strings.NewReader(stdin)
	out, _ := command.CombinedOutput()
	return out
}

func (c *canary) apply(manifest string) {
	c.Helper()
	out := c.run(manifest, "kubectl", "apply", "--server-side", "-f", "-")
	require.NotContains(c, string(out), "rror", "%s", out)
}

func (c *canary) searchEverywhere() {
	c.Helper()
	c.searchObjects()
	for _, name := range []string{"good", "toobig", "stranger"} {
		for _, command := range [][]string{
			{"drover", "why", name}, {"drover", "logs", name}, {"drover", "get", name, "-o", "yaml"},
			{"kubectl", "describe", "digitaloceanmachine", name}, {"kubectl", "describe", "machine.cluster.x-k8s.io", name},
			{"kubectl", "describe", "secret", name + "-machine-state"},
			{"kubectl", "get", "secret", name + "-machine-state", "-o", `go-template={{range $k, $v := .data}}{{if eq $k "log.txt" "result.json" "journal.json" "server.json"}}{{$v | base64decode}}{{end}}{{end}}`},
		} {
			out := c.run("", command[0], command[1:]...)
			require.NotEmpty(c, out, "%v", command)
			c.search(strings.Join(command[:3], " "), c.withoutGiven(out))
		}
	}
	for _, command := range [][]string{
		{"kubectl", "logs", "--selector", "batch.kubernetes.io/job-name", "--all-containers", "--tail", "-1", "--prefix"},
		{"kubectl", "describe", "jobs"}, {"kubectl", "describe", "pods"},
		{"kubectl", "logs", "-n", "drover-system", "deployment/drover-manager", "--tail", "-1"},
		{"kubectl", "get", "--raw", "/api/v1/namespaces/drover-system/services/drover-metrics:main/proxy/metrics"},
	} {
		out := c.run("", command[0], command[1:]...)
		require.NotEmpty(c, out, "%v", command)
		c.search(strings.Join(command, " "), out)
	}
	c.searchFiles(filepath.Join(bed.StateDir, "logs"))
	c.searchFiles(os.TempDir())
}

// searchObjects looks at every object but Secrets.
func (c *canary) searchObjects() {
	c.Helper()
	require.NoError(c, c.secrets.searchObjects(func(args ...string) []byte { return c.withoutGiven(c.run("", "kubectl", args...)) }))
}

// withoutGiven leaves out what the user himself wrote into an object: spec.userdata of the machines.
func (c *canary) withoutGiven(content []byte) []byte {
	return bytes.ReplaceAll(content, []byte("content: "+c.known["user data"]), nil)
}

// searchFiles looks at the files that are there now; some go meanwhile. Below the testbed's own folder are the disks of servers
// and of etcd, where secrets belong.
func (c *canary) searchFiles(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if path == bed.StateDir {
			return fs.SkipDir
		}
		if err == nil && entry.Type().IsRegular() {
			c.searchFile(path, entry)
		}
		return nil
	})
}

func (c *canary) searchFile(path string, entry fs.DirEntry) {
	if info, err := entry.Info(); err != nil || info.Size() > maxSearched {
		return
	}
	if content, err := os.ReadFile(path); err == nil {
		c.search("file "+path, content)
	}
}
