package bootstrap

import (
	_ "embed" // the script's body
	"errors"
	"fmt"
	"strings"
)

//go:embed clean.sh
var cleaning string

// Clean is what is to be taken off a host that was there before its machine and outlives it.
type Clean struct {
	// UID is the machine's. The host is its own when Claim, a file on the host, has it in its first line.
	UID   string
	Claim string
	// Run is the folder on the host with the bootstrap script that was run there for the machine: it names the machine's plan Secret.
	Run string
}

// Exit codes of the script that CleanScript writes, beside 0: the host is clean, or was another machine's.
const (
	// CleanIncomplete is where another try may help.
	CleanIncomplete = 1
	// CleanRefused is where a person has to look, for the host shows something that another machine may need.
	CleanRefused = 3
)

// CleanScript writes the script, the same bytes for the same Clean. Its last line of output says how it went.
func CleanScript(c Clean) ([]byte, error) {
	if c.UID == "" || !isLine(c.UID) {
		return nil, errors.New("writing the cleaning script: the machine has no UID")
	}
	for _, path := range []string{c.Claim, c.Run} {
		if !strings.HasPrefix(path, "/") || !isLine(path) {
			return nil, fmt.Errorf("writing the cleaning script: %q is no absolute path", path)
		}
	}
	var out strings.Builder
	out.WriteString("#!/bin/sh\n")
	for _, v := range []EnvVar{{"DROVER_UID", c.UID}, {"DROVER_CLAIM", c.Claim}, {"DROVER_RUN", c.Run}} {
		fmt.Fprintf(&out, "%s=%s\n", v.Name, quote(v.Value))
	}
	out.WriteString(": \"${DROVER_ROOT:=}\"\n")
	out.WriteString(cleaning)
	return []byte(out.String()), nil
}
