package plan

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// Plan is the desired state that a node's agent applies: first the files, then the instructions,
// then, until the plan changes, the periodic instructions and the probes.
type Plan struct {
	Files                []File                `json:"files,omitempty"`
	Instructions         []Instruction         `json:"instructions,omitempty"`
	PeriodicInstructions []PeriodicInstruction `json:"periodicInstructions,omitempty"`
	// Probes by their names.
	Probes map[string]Probe `json:"probes,omitempty"`
	// Error says why the Secret has no plan. The agent shows it and applies nothing.
	Error string `json:"error,omitempty"`
}

// ActionDelete is the Action of a File that must not be there.
const ActionDelete = "delete"

// File is a file or directory of the server.
type File struct {
	// Content is base64 (standard encoding).
	Content string `json:"content,omitempty"`
	// Path is absolute.
	Path string `json:"path,omitempty"`
	// Directory says that it is one; Content is then empty.
	Directory bool `json:"directory,omitempty"`
	// UID and GID are the owner; root when left out.
	UID int `json:"uid,omitempty"`
	GID int `json:"gid,omitempty"`
	// Permissions are octal, such as 0600.
	Permissions string `json:"permissions,omitempty"`
	// Action is empty or ActionDelete.
	Action string `json:"action,omitempty"`
	// Dynamic is for planners: a change of this file restarts nothing.
	Dynamic bool `json:"dynamic,omitempty"`
	// Minor is for planners: a change of this file needs no turn.
	Minor bool `json:"minor,omitempty"`
}

// Bytes is the content, decoded.
func (f File) Bytes() ([]byte, error) {
	content, err := base64.StdEncoding.DecodeString(f.Content)
	if err != nil {
		return nil, fmt.Errorf("decoding the content of %s: %w", f.Path, err)
	}
	return content, nil
}

// NewFile is a file with a content.
func NewFile(path, permissions string, content []byte) File {
	return File{Path: path, Permissions: permissions, Content: base64.StdEncoding.EncodeToString(content)}
}

// Command is the common part of all instructions.
type Command struct {
	// Name identifies its output.
	Name string `json:"name,omitempty"`
	// Image is unpacked into the folder the command runs in; none leaves that folder empty.
	Image string `json:"image,omitempty"`
	// Env is a list of NAME=value.
	Env  []string `json:"env,omitempty"`
	Args []string `json:"args,omitempty"`
	// Command is looked for in PATH and in the folder. When it and Script are empty it is run.sh in
	// that folder.
	Command string `json:"command,omitempty"`
	// Script is a shell script; Args are its arguments. It comes before Command.
	Script string `json:"script,omitempty"`
}

// Instruction runs once per content of the plan.
type Instruction struct {
	Command
	// SaveOutput keeps stdout and stderr under Name in KeyAppliedOutput.
	SaveOutput bool `json:"saveOutput,omitempty"`
}

// PeriodicInstruction runs again and again while the plan stands. Its stdout is kept under its name
// in KeyPeriodicOutput.
type PeriodicInstruction struct {
	Command
	// PeriodSeconds is DefaultPeriodSeconds when 0.
	PeriodSeconds int `json:"periodSeconds,omitempty"`
	// SaveStderrOutput keeps stderr as well.
	SaveStderrOutput bool `json:"saveStderrOutput,omitempty"`
}

// DefaultPeriodSeconds of a periodic instruction.
const DefaultPeriodSeconds = 600

// Probe is a question asked over HTTP whether something on the node is well.
type Probe struct {
	Name string `json:"name,omitempty"`
	// InitialDelaySeconds pass after the plan was applied before it is asked.
	InitialDelaySeconds int `json:"initialDelaySeconds,omitempty"`
	// TimeoutSeconds is 1 when 0, SuccessThreshold 1, FailureThreshold 3.
	TimeoutSeconds   int `json:"timeoutSeconds,omitempty"`
	SuccessThreshold int `json:"successThreshold,omitempty"`
	FailureThreshold int `json:"failureThreshold,omitempty"`
	// HTTPGet is the request of the probe; a status of 2xx or 3xx is a success.
	HTTPGet HTTPGet `json:"httpGet"`
}

// HTTPGet is a GET of a URL. The files are on the node.
type HTTPGet struct {
	URL        string `json:"url,omitempty"`
	Insecure   bool   `json:"insecure,omitempty"`
	ClientCert string `json:"clientCert,omitempty"`
	ClientKey  string `json:"clientKey,omitempty"`
	CACert     string `json:"caCert,omitempty"`
}

// Checksum identifies a plan: sha256 of the bytes in the Secret, in hex.
func Checksum(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
