package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// touched are the kernel settings that localkube, its kubelet and its
// kube-proxy change; clean puts the old values back.
var touched = []string{
	"net/ipv4/ip_forward",
	"net/ipv4/conf/all/route_localnet",
	"net/bridge/bridge-nf-call-iptables",
	"net/bridge/bridge-nf-call-ip6tables",
	"vm/overcommit_memory",
	"vm/panic_on_oom",
	"kernel/panic",
	"kernel/panic_on_oops",
	"kernel/keys/root_maxkeys",
	"kernel/keys/root_maxbytes",
}

// before is what the machine was like when it became a node.
type before struct {
	Settings map[string]string `json:"settings"`
	// Absent are the directories that were not there.
	Absent []string `json:"absent"`
}

// fixedDirs are outside the data directory because the kubelet, containerd
// and libcni have their names built in.
var fixedDirs = []string{
	"/var/lib/kubelet", "/var/log/containers", "/var/lib/cni", "/run/containerd", netnsDir, "/opt/cni",
}

// remember records the machine's state, once per clean: a second start after
// a crash must not take our own settings for the machine's.
func remember(l layout) error {
	if _, err := os.Stat(l.marker()); err == nil {
		return nil
	}
	state := before{Settings: map[string]string{}}
	for _, name := range touched {
		if raw, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			state.Settings[name] = strings.TrimSpace(string(raw))
		}
	}
	for _, dir := range fixedDirs {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			state.Absent = append(state.Absent, dir)
		}
	}
	raw, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the machine's state: %w", err)
	}
	return l.Write(raw, "node", "restore.json")
}

// recall reads what remember recorded; ok is false on a machine that is clean.
func recall(l layout) (state before, ok bool, err error) {
	raw, err := os.ReadFile(l.marker())
	if errors.Is(err, fs.ErrNotExist) {
		return before{}, false, nil
	}
	if err != nil {
		return before{}, false, fmt.Errorf("reading the machine's former state: %w", err)
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return before{}, false, fmt.Errorf("reading the machine's former state: %w", err)
	}
	return state, true, nil
}

func restoreSettings(state before) error {
	var errs []error
	for _, name := range touched { // only names we know, whatever the file says
		value, ok := state.Settings[name]
		if !ok {
			continue
		}
		path := filepath.Join("/proc/sys", name)
		if raw, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(raw)) == value {
			continue
		}
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("restoring %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
