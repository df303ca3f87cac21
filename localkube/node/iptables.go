package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// localkubePrefix is the prefix of localkube's own chains.
const localkubePrefix = "LOCALKUBE-"

// ownedPrefixes are the chains that localkube, its kubelet and its kube-proxy make.
var ownedPrefixes = []string{"KUBE-", localkubePrefix}

// removeRules deletes every chain with one of the prefixes, and every rule that leads to one,
// from the IPv4 and IPv6 tables.
func removeRules(ctx context.Context, prefixes ...string) error {
	var errs []error
	for _, program := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(program + "-save"); err != nil {
			continue
		}
		saved, err := exec.CommandContext(ctx, program+"-save").Output()
		if err != nil {
			errs = append(errs, fmt.Errorf("reading rules with %s-save: %w", program, err))
			continue
		}
		if undo := undoRules(string(saved), prefixes); undo != "" {
			errs = append(errs, restoreTables(ctx, program, undo))
		}
	}
	return errors.Join(errs...)
}

// restoreTables applies rules without flushing other programs' rules.
func restoreTables(ctx context.Context, program, rules string) error {
	cmd := exec.CommandContext(ctx, program+"-restore", "--noflush", "-w", "10")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("changing rules with %s-restore: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

// undoRules turns the output of iptables-save into the input of iptables-restore that deletes our
// rules; empty if none is ours.
func undoRules(saved string, prefixes []string) string {
	var out strings.Builder
	var table, deletes string
	var chains []string
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table, deletes, chains = line, "", nil
		case strings.HasPrefix(line, ":"):
			if chain, _, _ := strings.Cut(line[1:], " "); owned(chain, prefixes) {
				chains = append(chains, chain)
			}
		case strings.HasPrefix(line, "-A "):
			if rule := line[len("-A "):]; leadsToOwned(rule, prefixes) {
				deletes += "-D " + rule + "\n"
			}
		case line == "COMMIT" && len(chains) > 0:
			out.WriteString(table + "\n" + deletes)
			for _, verb := range []string{"-F ", "-X "} {
				out.WriteString(verb + strings.Join(chains, "\n"+verb) + "\n")
			}
			out.WriteString("COMMIT\n")
		}
	}
	return out.String()
}

// leadsToOwned reports whether a rule of another program's chain jumps to one of our chains.
func leadsToOwned(rule string, prefixes []string) bool {
	words := strings.Fields(rule)
	if len(words) == 0 || owned(words[0], prefixes) {
		return false
	}
	for i, word := range words[:len(words)-1] {
		if (word == "-j" || word == "-g") && owned(words[i+1], prefixes) {
			return true
		}
	}
	return false
}

func owned(chain string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(chain, prefix) })
}
