package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKill kills the manager and the programs in the Jobs' pods, without warning, while real servers are made and removed.
// Each machine gets its one server all the same, and nothing is left in the end. It is the sample on real servers of what
// package faults does a thousandfold with simulated ones.
func TestKill(t *testing.T) {
	if bed == nil {
		t.Skip("killing needs the testbed: run `make e2e`")
	}
	c := newCanary(t)
	c.apply(clusterManifest("accessToken", "drover-demo-token"))
	names := []string{"kill-a", "kill-b", "kill-c"}
	if os.Getenv("DROVER_SOAK") != "" {
		names = append(names, "kill-d", "kill-e", "kill-f", "kill-g", "kill-h", "kill-i")
	}
	for _, name := range names {
		c.apply(machineManifest(name, c.namespace)) // no webhook answers while the manager is killed
	}
	stop := killBoth(t)
	for _, name := range names {
		c.await(name, "Running")
	}
	kills := stop()
	require.Equal(t, len(names), strings.Count(string(c.run("", "kubectl", "get", "digitaloceanmachines", "-o", "name")), "/"))
	require.Len(t, c.servers(), len(names), "one server each")

	stop = killBoth(t)
	c.run("", "kubectl", "delete", "machines.cluster.x-k8s.io", "--all", "--wait=false")
	c.run("", "kubectl", "wait", "--for=delete", "digitaloceanmachines", "--all", "--timeout=5m")
	for name, n := range stop() {
		kills[name] += n
	}
	h := &hostile{T: t}
	h.kubectl("", "--namespace=drover-system", "rollout", "status", "deployment/drover-manager", "--timeout=5m")
	c.awaitWebhooks()
	require.Empty(t, string(c.run("", "kubectl", "get", "digitaloceanmachines", "-o", "name")), bed.Diagnose(t.Context(), c.namespace))
	require.Empty(t, c.servers(), "no server is left")
	t.Logf("killed: %v", kills)
	require.NotZero(t, kills["/manager"])
	require.NotZero(t, kills["/machine"])
}

// TestUpgrade replaces the manager by one with other settings, as an upgrade does: machines that run are not touched, neither
// they nor their servers, and new ones are made.
func TestUpgrade(t *testing.T) {
	if bed == nil {
		t.Skip("an upgrade needs the testbed: run `make e2e`")
	}
	c, h := newCanary(t), &hostile{T: t}
	c.apply(clusterManifest("accessToken", "drover-demo-token"))
	c.apply(machineManifest("old", c.namespace))
	c.await("old", "Running")
	c.run("", "kubectl", "wait", "--for=condition=BootstrapDelivered", "digitaloceanmachine/old", "--timeout=15m") // its Job has no more to say
	what := []string{"--namespace=" + c.namespace, "get", "digitaloceanmachine/old", "machine.cluster.x-k8s.io/old", "cluster.cluster.x-k8s.io/c", "rkecluster/c",
		"secret/old-machine-state", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.generation} {.spec}{"\n"}{end}`}
	version := []string{"--namespace=" + c.namespace, "get", "digitaloceanmachine/old", "-o", "jsonpath={.metadata.resourceVersion}"}
	before, versionBefore, servers := h.kubectl("", what...), h.kubectl("", version...), c.servers()
	require.Len(t, servers, 1)

	h.kubectl("", "--namespace=drover-system", "patch", "deployment/drover-manager", "--type=json",
		`--patch=[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--job-ttl=23h"}]`)
	h.kubectl("", "--namespace=drover-system", "rollout", "status", "deployment/drover-manager", "--timeout=5m")
	c.apply(machineManifest("new", c.namespace))
	c.await("new", "Running")
	require.Equal(t, before, h.kubectl("", what...))
	require.Equal(t, versionBefore, h.kubectl("", version...), "nobody wrote it")
	require.Subset(t, c.servers(), servers)
	require.Len(t, c.servers(), 2)
	c.run("", "kubectl", "delete", "machines.cluster.x-k8s.io", "--all", "--timeout=5m")
	require.Empty(t, c.servers())
}

// awaitWebhooks waits until the manager answers: that it was killed is seen a moment later, and it is called ready until then.
func (c *canary) awaitWebhooks() {
	c.Helper()
	var out string
	for range looks(5 * time.Minute) {
		out = string(c.run(clusterManifest("accessToken", "drover-demo-token"), "kubectl", "apply", "--server-side", "--dry-run=server", "-f", "-"))
		if !strings.Contains(out, "rror") {
			return
		}
	}
	c.Fatal("the manager does not answer: ", out)
}

// servers are the lines of the cloud's list that have the namespace's tag.
func (c *canary) servers() []string {
	c.Helper()
	var found []string
	list := (&hostile{T: c.T}).run("", "localcloud", "ls", "--state-dir", bed.CloudDir())
	for line := range strings.Lines(list) {
		if strings.Contains(line, c.namespace) {
			found = append(found, line)
		}
	}
	return found
}

const (
	killLook         = 250 * time.Millisecond
	killManagerPause = 30 * time.Second
)

// killBoth kills the programs in Jobs' pods as soon as there are any, once, for each further time would be another minute of
// back-off, and the manager right after them and then again and again.
func killBoth(t *testing.T) (stop func() map[string]int) {
	t.Helper()
	end, done := make(chan struct{}), make(chan map[string]int)
	go func() {
		kills := map[string]int{}
		var ofManager time.Time
		ticker := time.NewTicker(killLook)
		defer ticker.Stop()
		for {
			if kills["/machine"] == 0 {
				kills["/machine"] = kill("/machine")
			}
			if kills["/machine"] > 0 && time.Since(ofManager) > killManagerPause {
				kills["/manager"] += killManager(t)
				ofManager = time.Now()
			}
			select {
			case <-ticker.C:
			case <-end:
				done <- kills
				return
			}
		}
	}()
	return func() map[string]int { close(end); return <-done }
}

// killManager kills it and drops its pod: in the old one the kubelet would wait longer before each start. The new one leads
// when the lease of the one that was killed has run out, after some 15 s.
func killManager(t *testing.T) int {
	t.Helper()
	killed := kill("/manager")
	(&hostile{T: t}).run("", "kubectl", "--namespace=drover-system", "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
	return killed
}

// kill kills every process of a program and tells how many there were. The driver, which is the same program, ends with the
// one that started it, as it does when a whole pod is killed.
func kill(program string) int {
	killed := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(line, []byte(program+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// clusterManifest is a Cluster with its bootstrap data and a credential, whose key is the driver's.
func clusterManifest(key, token string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: credential}
stringData: {%s: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: bootstrap}
stringData: {value: "#!/bin/sh\n"}
---
apiVersion: rke.cattle.io/v1
kind: RKECluster
metadata: {name: c}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec: {infrastructureRef: {apiGroup: rke.cattle.io, kind: RKECluster, name: c}}
`, key, token)
}

func machineManifest(name, tag string) string {
	return fmt.Sprintf(`
apiVersion: rke-machine.cattle.io/v1
kind: DigitaloceanMachine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c}}
spec: {region: nyc3, tags: %[2]s, common: {cloudCredentialSecretName: credential}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  clusterName: c
  bootstrap: {dataSecretName: bootstrap}
  infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: DigitaloceanMachine, name: %[1]s}
`, name, tag)
}
