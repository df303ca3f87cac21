package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	localcloud "github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/files"
)

// hostileCase is a driver that does harm, and what its NodeDriver says then.
type hostileCase struct {
	// content is what is served; by default the hostile plugin in the mode of the case's name.
	content []byte
	fault   files.Fault
	// checksum is written into the NodeDriver in place of the right one.
	checksum string
	reason   string
	message  string
}

func hostileCases() map[string]hostileCase {
	return map[string]hostileCase{
		"html":     {fault: files.FaultHTML, reason: "NotADriver", message: "serves a web page"},
		"webpage":  {content: []byte("<html><body>Log in</body></html>"), reason: "NotADriver", message: "web page"},
		"script":   {content: []byte("#!/bin/sh\nexec sh -i\n"), reason: "NotADriver", message: "a script"},
		"checksum": {checksum: strings.Repeat("1", 64), reason: "ChecksumMismatch", message: strings.Repeat("1", 64)},
		"bomb":     {reason: "OutOfMemory", message: "exceeded the memory limit of its container"},
		"hog":      {reason: "OutOfMemory", message: "exceeded the memory limit of its container"},
		"silent":   {reason: "DriverUnresponsive", message: "printed no address"},
		"flood":    {reason: "DriverUnresponsive", message: "its first line is not a loopback address"},
		"leaves":   {reason: "DriverUnresponsive", message: "its process ended immediately"},
		"path":     {reason: "FlagsInvalid", message: "../x"},
		"many":     {reason: "FlagsInvalid", message: "10001 flags"},
		"wide":     {reason: "FlagsInvalid", message: "8388608 bytes"},
	}
}

// TestHostileDrivers registers every harmful driver at once. Each costs one Job and gets one clear condition, and the manager
// does not notice: neither in memory nor in CPU time.
func TestHostileDrivers(t *testing.T) {
	if bed == nil {
		t.Skip("hostile drivers need the testbed: run `make e2e`")
	}
	h := &hostile{T: t}
	memory, cpu := h.manager()
	cases := hostileCases()
	for name, c := range cases {
		h.register(name, c)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { (&hostile{T: t}).expectRefused(name, c) })
	}
	memoryAfter, cpuAfter := h.manager()
	t.Logf("the manager: %d MiB resident before and %d MiB after, %s of CPU time for %d drivers", memory, memoryAfter, cpuAfter-cpu, len(cases))
	require.Less(t, memoryAfter, memory+48, "the manager's memory")
	require.Less(t, cpuAfter-cpu, 10*time.Second, "the manager's CPU time")
	h.deleteDrivers(slices.Collect(maps.Keys(cases))...)
}

// hostileCreate lets drivers that registered well do harm when they are to make a server.
func hostileCreate(t *testing.T) {
	t.Helper()
	h := &hostile{T: t}
	token := "marker-token-of-the-hostile-drivers"
	for _, name := range []string{"noserver", "prints", "snoop"} {
		h.register(name, hostileCase{})
	}
	for _, name := range []string{"noserver", "prints", "snoop"} {
		h.await(name, "nodedriver", driverOf(name), `{.status.conditions[?(@.type=="Ready")].status}`, "True")
	}
	h.expectNoTokenWhenProbed()
	namespace := h.makeMachines(token, "noserver", "prints", "snoop")
	logs := map[string]string{}
	for _, name := range []string{"noserver", "prints", "snoop"} {
		h.await(name, "hostile"+name+"machine", name, "{.status.phase}", "Failed", "--namespace="+namespace)
		logs[name] = h.run("", "drover", "--namespace="+namespace, "logs", name, "--operation=create", "--attempt=1") + h.run("", "drover", "--namespace="+namespace, "why", name)
		for _, secret := range []string{token, "bWFya2VyLXRva2Vu", "6d61726b65722d746f6b656e"} {
			require.NotContains(t, logs[name], secret)
		}
	}
	require.Contains(t, logs["prints"], "the cloud does not like")
	// A driver finds the token of its Job's own account, which opens its own Secrets and nothing else.
	for _, name := range []string{"secrets", "credential", "bootstrap", "all", "pods", "nodes", "drivers", "machines"} {
		require.Contains(t, logs["snoop"], "create "+name+": 403 Forbidden")
	}
	// The one whose driver came to an end can ask it to remove what it made; of the others nobody knows what they made.
	h.kubectl("", "delete", "--namespace="+namespace, "machine.cluster.x-k8s.io", "noserver", "--wait=false")
	h.abandon(namespace, "prints", "snoop")
	h.kubectl("", "wait", "--for=delete", "--namespace="+namespace, "machine.cluster.x-k8s.io/noserver", "--timeout=5m")
	h.deleteDrivers("noserver", "prints", "snoop")
}

// expectNoTokenWhenProbed looks at what the snooping driver found when it was first run.
func (h *hostile) expectNoTokenWhenProbed() {
	h.Helper()
	log := h.run("", "kubectl", "--namespace=drover-drivers", "logs", "--selector=io.cattle.node_driver.name="+driverOf("snoop"), "--container=flags", "--tail=-1")
	require.Contains(h, log, "probe token: none")
	require.NotContains(h, log, "200 OK")
}

type hostile struct{ *testing.T }

func driverOf(name string) string { return "hostile" + name }

func (h *hostile) deleteDrivers(names ...string) {
	h.Helper()
	args := []string{"delete", "nodedriver", "--timeout=5m"}
	for _, name := range names {
		args = append(args, driverOf(name))
	}
	h.kubectl("", args...)
}

// register serves a driver and makes its NodeDriver.
func (h *hostile) register(name string, c hostileCase) {
	h.Helper()
	if c.content == nil {
		binary, err := os.ReadFile(filepath.Join(bed.BinDir, "docker-machine-driver-hostile"))
		require.NoError(h, err)
		c.content = append(binary, "\nhostile-mode:"+name...)
	}
	path := filepath.Join(h.TempDir(), "driver")
	require.NoError(h, os.WriteFile(path, c.content, 0o600))
	file := "docker-machine-driver-" + driverOf(name)
	printed, err := localcloud.Ask(h.Context(), bed.CloudDir(), "file", "put", file, path)
	require.NoError(h, err)
	require.NoError(h, os.Remove(path), "there are many, and they are large")
	_, checksum, _ := strings.Cut(strings.TrimSpace(printed), " ")
	_, err = localcloud.Ask(h.Context(), bed.CloudDir(), "file", "fault", file, string(c.fault))
	require.NoError(h, err)
	if c.checksum != "" {
		checksum = c.checksum
	}
	h.kubectl(fmt.Sprintf(`
apiVersion: management.cattle.io/v3
kind: NodeDriver
metadata: {name: %s, annotations: {privateCredentialFields: token}}
spec: {url: "https://%s/%s", checksum: %q, active: true}
`, driverOf(name), localcloud.FilesHost, file, checksum), "apply", "--server-side", "-f", "-")
}

func (h *hostile) expectRefused(name string, c hostileCase) {
	h.Helper()
	h.await(name, "nodedriver", driverOf(name), `{.status.conditions[?(@.type=="Ready")].reason}`, c.reason)
	message := h.kubectl("", "get", "nodedriver", driverOf(name), "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
	require.Contains(h, message, c.message, name)
	h.Logf("%-9s %s: %s", name, c.reason, message)
	jobs := strings.Fields(h.kubectl("", "get", "jobs", "--namespace=drover-drivers", "--selector=io.cattle.node_driver.name="+driverOf(name), "-o", "name"))
	require.LessOrEqual(h, len(jobs), 1, "%s: one Job: %v", name, jobs)
	require.Empty(h, h.kubectl("", "get", "crds", "--selector=io.cattle.node_driver.name="+driverOf(name), "-o", "name"), name)
}

// makeMachines makes a machine of each driver, in a namespace of their own.
func (h *hostile) makeMachines(token string, names ...string) string {
	h.Helper()
	namespace := "hostile-" + strconv.FormatInt(time.Now().Unix()%100000, 10)
	require.NoError(h, bed.NewNamespace(h.Context(), namespace))
	h.Cleanup(func() { bed.DropNamespace(context.WithoutCancel(h.Context()), namespace) })
	manifest := clusterManifest("token", token)
	for _, name := range names {
		manifest += fmt.Sprintf(`
---
apiVersion: rke-machine.cattle.io/v1
kind: Hostile%[1]sMachine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c}}
spec: {common: {cloudCredentialSecretName: credential}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  clusterName: c
  bootstrap: {dataSecretName: bootstrap}
  infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: Hostile%[1]sMachine, name: %[1]s}
`, name)
	}
	h.kubectl(manifest, "apply", "--server-side", "--namespace="+namespace, "-f", "-")
	return namespace
}

// abandon deletes machines of which the user has seen that they have no server.
func (h *hostile) abandon(namespace string, names ...string) {
	h.Helper()
	h.kubectl("", append([]string{"delete", "--namespace=" + namespace, "machine.cluster.x-k8s.io", "--wait=false"}, names...)...)
	for _, name := range names {
		kind := "hostile" + name + "machine"
		h.await(name, kind, name, `{.status.conditions[?(@.type=="Ready")].reason}`, "ServerMayExist", "--namespace="+namespace)
		h.kubectl("", "annotate", "--namespace="+namespace, kind, name, "drover.cattle.io/abandon="+name)
		h.kubectl("", "wait", "--for=delete", "--namespace="+namespace, kind+"/"+name, "--timeout=5m")
	}
}

// await waits until a field of an object has a value.
func (h *hostile) await(what, kind, name, path, want string, args ...string) {
	h.Helper()
	var last []byte
	again := hereLook(h.TempDir(), bed.Kubeconfig(), append([]string{"kubectl", "get", kind, name, "-o", "jsonpath=" + path}, args...))
	for range looks(5 * time.Minute) {
		if last, _ = again(); string(last) == want {
			return
		}
	}
	h.Fatalf("%s: %s of %s %s is %q, not %q: %s\n%s", what, path, kind, name, last, want,
		h.run("", "kubectl", append(args, "get", kind, name, "-o", "yaml")...), bed.Diagnose(h.Context(), "drover-drivers"))
}

// kubectl fails the test when kubectl fails.
func (h *hostile) kubectl(stdin string, args ...string) string {
	h.Helper()
	command := exec.CommandContext(h.Context(), "env", append([]string{"kubectl"}, args...)...)
	command.Env, command.Stdin = bed.Env(), strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	require.NoError(h, err, "kubectl %v: %s", args, out)
	return string(out)
}

func (h *hostile) run(stdin, name string, args ...string) string {
	command := exec.CommandContext(h.Context(), "env", append([]string{name}, args...)...)
	command.Env, command.Stdin = bed.Env(), strings.NewReader(stdin)
	out, _ := command.CombinedOutput()
	return string(out)
}

// manager is the resident size in MiB and the CPU time of the manager's process, which is on this machine.
func (h *hostile) manager() (memory int, cpu time.Duration) {
	h.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(h, err)
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(line, []byte("/manager\x00")) {
			continue
		}
		return procMemory(h.T, filepath.Dir(path)), procCPU(h.T, filepath.Dir(path))
	}
	h.Fatal("the manager does not run on this machine")
	return 0, 0
}

func procMemory(t *testing.T, dir string) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			return kib >> 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// procCPU reads utime and stime, fields 14 and 15 of proc(5)'s stat, in hundredths of a second.
func procCPU(t *testing.T, dir string) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var sum int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
