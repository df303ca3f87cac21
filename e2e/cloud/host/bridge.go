package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

// setUpBridge makes the bridge with its address. Forwarding is switched on
// for the bridge alone, so that it ends with the bridge.
func setUpBridge(ctx context.Context) error {
	if _, err := net.InterfaceByName(BridgeName); err != nil {
		if err := run(ctx, "ip", "link", "add", BridgeName, "type", "bridge"); err != nil {
			return err
		}
	}
	if err := run(ctx, "ip", "address", "replace", Gateway+"/16", "dev", BridgeName); err != nil {
		return err
	}
	if err := run(ctx, "ip", "link", "set", BridgeName, "up"); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+BridgeName+"/forwarding", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("switching forwarding on: %w", err)
	}
	return allowForwarding(ctx)
}

// RemoveInterface removes a network interface; one that is not there is no error.
func RemoveInterface(ctx context.Context, name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil //nolint:nilerr // no such interface is what is wanted
	}
	err := run(ctx, "ip", "link", "delete", name)
	if _, gone := net.InterfaceByName(name); gone != nil {
		return nil //nolint:nilerr // it went by itself in between
	}
	return err
}

// forwardRules are only needed where the machine drops what it forwards.
func forwardRules() [][]string {
	return [][]string{
		{"FORWARD", "-i", BridgeName, "-j", "ACCEPT"},
		{"FORWARD", "-o", BridgeName, "-j", "ACCEPT"},
	}
}

func allowForwarding(ctx context.Context) error {
	policy, err := exec.CommandContext(ctx, "iptables", "-w", "-S", "FORWARD").Output()
	if err != nil || !strings.Contains(string(policy), "-P FORWARD DROP") {
		return nil //nolint:nilerr // without iptables nothing is dropped
	}
	for _, rule := range forwardRules() {
		if hasRule(ctx, rule) {
			continue
		}
		if err := run(ctx, "iptables", append([]string{"-w", "-I"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}

func disallowForwarding(ctx context.Context) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil //nolint:nilerr // without iptables there are no rules
	}
	var errs []error
	for _, rule := range forwardRules() {
		if hasRule(ctx, rule) {
			errs = append(errs, run(ctx, "iptables", append([]string{"-w", "-D"}, rule...)...))
		}
	}
	return errors.Join(errs...)
}

func hasRule(ctx context.Context, rule []string) bool {
	return exec.CommandContext(ctx, "iptables", append([]string{"-w", "-C"}, rule...)...).Run() == nil
}

func run(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
