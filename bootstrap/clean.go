package bootstrap

import (
	_ "embed" // the script's body
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/drover-project/drover/api/plan"
)

//go:embed clean.sh
var cleaning string

// Clean names the files to remove from a host that existed before its machine and outlives it.
type Clean struct {
	// UID is the machine's. The host belongs to the machine if the first line of Claim, a file on
	// the host, has this UID.
	UID   string
	Claim string
	// Run is the folder on the host with the machine's bootstrap script, which names the machine's
	// plan Secret.
	Run string
}

// MarkerRoot on a host has a folder for each machine that was bootstrapped over SSH. Beside it is
// the claim of the host's present machine.
const MarkerRoot = "/var/lib/drover/userdata"

// NewClean returns the files to remove from a host of the machine with a UID; root is MarkerRoot,
// except in tests.
func NewClean(uid, root string) Clean {
	return Clean{UID: uid, Claim: path.Join(path.Dir(root), "claim"), Run: path.Join(root, uid)}
}

// Exit codes of CleanScript's script. 0: the host is clean, or, over SSH, never belonged to this
// machine.
const (
	// CleanIncomplete is where another try may help.
	CleanIncomplete = 1
	// CleanRefused means that the user must check the host: it shows data that another machine may
	// need.
	CleanRefused = 3
)

// CleanScript writes the script, the same bytes for the same Clean. Its last line of output
// describes the outcome.
func CleanScript(c Clean) ([]byte, error) {
	if c.UID == "" || !plan.IsLine(c.UID) {
		return nil, errors.New("writing the cleaning script: the machine has no UID")
	}
	for _, path := range []string{c.Claim, c.Run} {
		if !strings.HasPrefix(path, "/") || !plan.IsLine(path) {
			return nil, fmt.Errorf("writing the cleaning script: %q is not an absolute path", path)
		}
	}
	var out strings.Builder
	out.WriteString("#!/bin/sh\n")
	for _, v := range []struct{ Name, Value string }{{"DROVER_UID", c.UID}, {"DROVER_CLAIM", c.Claim}, {"DROVER_RUN", c.Run}} {
		fmt.Fprintf(&out, "%s=%s\n", v.Name, quote(v.Value))
	}
	out.WriteString(": \"${DROVER_ROOT:=}\"\n")
	out.WriteString(cleaning)
	return []byte(out.String()), nil
}

// CleanPlan writes the plan by which the machine's agent runs the script, reports, and only then
// ends. Agents run periodic instructions after they have recorded that the others succeeded. The
// script leaves behind a unit, which waits for the periodic instruction of this plan.
func CleanPlan(c Clean) ([]byte, error) {
	if strings.Trim(c.UID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "" {
		return nil, fmt.Errorf("writing the cleaning plan: %q is no UID", c.UID) // a unit of systemd has it in a path
	}
	script, err := CleanScript(c)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(plan.Plan{
		Instructions:         []plan.Instruction{{Command: plan.Command{Name: "clean", Script: string(script), Args: []string{"by-plan"}}, SaveOutput: true}},
		PeriodicInstructions: []plan.PeriodicInstruction{{Command: plan.Command{Name: "leave", Command: "touch", Args: []string{c.Run + "/reported"}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the cleaning plan: %w", err)
	}
	return raw, nil
}
