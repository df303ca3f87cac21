package bootstrap

import (
	"cmp"
	_ "embed" // the script's body
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/drover-project/drover/api/plan"
)

// MaxBytes bounds a script, so that it fits beside a user's own cloud-init into the 16 KiB of the
// smallest clouds.
const MaxBytes = 8 << 10

// DefaultFolder is the folder of the agent's journal.
const DefaultFolder = "/var/lib/drover-agent"

//go:embed install.sh
var body string

// comments of the body take room that a user's own cloud-init may need.
var comments = regexp.MustCompile(`(?m)^\t*# .*\n`)

// Install holds the settings of a new server.
type Install struct {
	// Server is the manager's endpoint: an https URL without a path.
	Server string
	// CAChecksum is the SHA-256 of the endpoint's /cacerts in lower-case hex; empty if the system's
	// authorities verify the endpoint.
	CAChecksum string
	// Token registers one agent (api/connect). If empty, the user sets DROVER_TOKEN for a server
	// whose agent has not registered yet.
	Token string
	// Sums are the SHA-256 sums of the agents by architecture (amd64, arm64), lower-case hex. At
	// least one.
	Sums map[string]string
	// Folder is the agent's own; DefaultFolder when empty.
	Folder string
	// Env is the agent's environment, such as proxies; the script's downloads use it too.
	Env []plan.EnvVar
	// ByHand makes a script for any server and any user: it ignores Token, Folder and Env, and an
	// existing agent keeps its own.
	ByHand bool
}

// config is the agent's configuration (cmd/agent) without its folder, which the script adds.
type config struct {
	Server    string `json:"server"`
	CAFile    string `json:"caFile,omitempty"`
	TokenFile string `json:"tokenFile"`
}

// Script writes the script: variables first, in single quotes, then a fixed body. It is
// byte-identical for the same Install. An error names the invalid value, and never quotes a secret.
func Script(i Install) ([]byte, error) {
	if err := i.validate(); err != nil {
		return nil, fmt.Errorf("writing the install script: %w", err)
	}
	c := config{Server: i.Server, TokenFile: "/etc/drover/token"}
	if i.CAChecksum != "" {
		c.CAFile = "/etc/drover/ca.crt"
	}
	read, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("writing the agent's configuration: %w", err)
	}
	var out strings.Builder
	set := func(line, value string) { fmt.Fprintf(&out, "%s=%s\n", line, quote(value)) }
	out.WriteString("#!/bin/sh\n")
	for _, v := range i.Env {
		set("export "+v.Name, v.Value)
	}
	set("DROVER_SERVER", i.Server)
	set("DROVER_CA_CHECKSUM", i.CAChecksum)
	if i.Token != "" {
		set("DROVER_TOKEN", i.Token)
	}
	set("DROVER_SUM_AMD64", i.Sums["amd64"])
	set("DROVER_SUM_ARM64", i.Sums["arm64"])
	set("DROVER_FOLDER", cmp.Or(i.Folder, DefaultFolder))
	set("DROVER_CONFIG", strings.TrimSuffix(string(read), "}"))
	if !i.ByHand {
		set("DROVER_ENV", strings.TrimSuffix(string(plan.EncodeEnvironment(i.Env)), "\n"))
	}
	out.WriteString(": \"${DROVER_ROOT:=}\"\n")
	out.WriteString(comments.ReplaceAllString(body, ""))
	if out.Len() > MaxBytes {
		return nil, fmt.Errorf("writing the install script: it has %d bytes, more than %d: shorten agentEnvVars", out.Len(), MaxBytes)
	}
	return []byte(out.String()), nil
}

var token = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]*$`)

func (i Install) validate() error {
	switch {
	case !IsServer(i.Server):
		return fmt.Errorf("the server URL %q is not https://host[:port]", i.Server)
	case i.CAChecksum != "" && !isSum(i.CAChecksum):
		return errors.New("the authorities' checksum is no SHA-256 in hex")
	case !token.MatchString(i.Token):
		return errors.New("the token has characters that no token has")
	case i.Folder != "" && (!strings.HasPrefix(i.Folder, "/") || !plan.IsLine(i.Folder) || strings.ContainsAny(i.Folder, `"\`)):
		return fmt.Errorf("the agent's folder %q is not an absolute path", i.Folder)
	case i.Sums["amd64"] == "" && i.Sums["arm64"] == "":
		return errors.New("no agent is available for linux")
	}
	for architecture, sum := range i.Sums {
		if !isSum(sum) {
			return fmt.Errorf("the checksum of the agent for %s is no SHA-256 in hex", architecture)
		}
	}
	for at, v := range i.Env {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("agentEnvVars[%d]: %w", at, err)
		}
	}
	return nil
}

// IsServer reports whether a URL consists of https, a host and optionally a port.
func IsServer(s string) bool {
	server, err := url.Parse(s)
	if err != nil || server.Hostname() == "" || s != "https://"+server.Host || strings.HasSuffix(s, ":") {
		return false
	}
	_, err = strconv.ParseUint(cmp.Or(server.Port(), "443"), 10, 16)
	return err == nil
}

func isSum(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && strings.ToLower(s) == s
}

// quote makes a word of a POSIX shell out of any text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
