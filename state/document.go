package state

import (
	"time"

	"github.com/drover-project/drover/clouds"
)

// Operation is the operation of a Job.
type Operation string

// The operations of cmd/machine.
const (
	// Probe downloads and verifies an external driver and reads its flags.
	Probe Operation = "probe"
	// Create makes the server, or finds the one an earlier attempt made, and applies the bootstrap
	// data.
	Create Operation = "create"
	// Remove makes sure that no server is left.
	Remove Operation = "remove"
	// Scan lists the servers of an account that carry our tags, and removes those that the request
	// names.
	Scan Operation = "scan"
)

// operations contains the empty one too: documents of tests and of other systems may lack the
// operation.
var operations = []Operation{"", Probe, Create, Remove, Scan}

// Keys of the state Secret, <m>-machine-state.
const (
	// ExtractedConfigKey is the machine directory as rancher/machine writes it: a tar.gz
	// (rancher-provv2.md §10.3).
	ExtractedConfigKey = "extractedConfig"
	// SSHPrivateKeyKey, SSHPublicKeyKey and SSHKnownHostsKey are the server's access data, OpenSSH
	// formats.
	SSHPrivateKeyKey = "ssh-privatekey"
	SSHPublicKeyKey  = "ssh-publickey"
	SSHKnownHostsKey = "ssh-knownhosts"
	// ServerKey holds a Server as JSON.
	ServerKey = "server.json"
	// JournalKey holds a Journal as JSON: written before the driver is called and whenever its
	// record changes.
	JournalKey = "journal.json"
	// ResultKey holds the Result of the last finished operation as JSON.
	ResultKey = "result.json"
	// CredentialKey, in the Secret <m>-machine-credential, holds a Credential as JSON: the
	// credential of the last Job, kept so that the server can still be removed after the
	// credential's Secret is gone. Earlier managers kept it in the state.
	CredentialKey = "credential.json"
	// VerdictKey, the only key that the manager writes, holds a Result as JSON: the end of the last
	// Job if its pod left no result, according to Kubernetes. The Job and its pod, which show it,
	// are deleted later.
	VerdictKey = "verdict.json"
	// ProgressKey holds a Progress as JSON, only while a Job has something to report.
	ProgressKey = "progress.json"
	// LogKey holds the redacted end of the last operation's log, at most MaxLogBytes.
	LogKey = "log.txt"
)

// MaxLogBytes bounds the log kept in the state Secret.
const MaxLogBytes = 64 << 10

// Credential is the content of a credential Secret that a driver gets.
type Credential struct {
	// Name of the Secret as the machine's spec names it.
	Name string `json:"name,omitempty"`
	// Version of the Secret when it first had this content; a different version means that another
	// attempt has another credential.
	Version string `json:"version,omitempty"`
	// Env and Files as in a Request.
	Env   map[string]string `json:"env,omitempty"`
	Files map[string][]byte `json:"files,omitempty"`
}

// DriverRef names the driver to run and the source of its binary.
type DriverRef struct {
	// Name as in docker-machine-driver-<name>.
	Name string `json:"name"`
	// Builtin drivers are linked into cmd/machine; the fields below are then empty.
	Builtin bool `json:"builtin,omitempty"`
	// Digest is the sha256 of the verified binary in the driver cache (namespace
	// driver.CacheNamespace); tried first.
	Digest string `json:"digest,omitempty"`
	// URL and Checksum are the fallback, and what Probe downloads.
	URL      string `json:"url,omitempty"`
	Checksum string `json:"checksum,omitempty"`
	// SkipChecksum accepts any content.
	SkipChecksum bool `json:"skipChecksum,omitempty"`
}

// Phase is the progress of an operation.
type Phase string

// Phases of a Journal in their order.
const (
	// PhaseIntent: the driver is about to be called; a server may exist from here on.
	PhaseIntent Phase = "Intent"
	// PhaseRecorded: the driver's own record names a server.
	PhaseRecorded Phase = "Recorded"
	// PhaseCreated: the driver returned success.
	PhaseCreated Phase = "Created"
	// PhaseBootstrapped: the bootstrap data was handed over (user data) or has run (SSH).
	PhaseBootstrapped Phase = "Bootstrapped"
	// PhaseRemoving: the driver is asked to remove.
	PhaseRemoving Phase = "Removing"
	// PhaseGone: no server exists.
	PhaseGone Phase = "Gone"
	// PhaseLost: the earlier content of the state was lost; a server may exist.
	PhaseLost Phase = "Lost"
)

// Journal records a resource before it can exist.
type Journal struct {
	Operation    Operation `json:"operation"`
	Attempt      int32     `json:"attempt"`
	Phase        Phase     `json:"phase"`
	InstanceName string    `json:"instanceName,omitempty"`
	Driver       string    `json:"driver,omitempty"`
	Time         time.Time `json:"time"`
}

// Progress is the report of a running Job.
type Progress struct {
	Operation Operation `json:"operation"`
	Attempt   int32     `json:"attempt"`
	// ThrottledSince is since when the cloud limits the request rate, and the driver repeats its
	// request.
	ThrottledSince time.Time `json:"throttledSince"`
	// Throttled is the first line in which the driver logged this.
	Throttled string `json:"throttled"`
}

// Server holds the known facts about a server; no secrets.
type Server = clouds.Server

// Address of a server.
type Address = clouds.Address

// Outcome is the outcome of an operation.
type Outcome string

// Outcomes of an operation.
const (
	Succeeded Outcome = "Succeeded"
	Failed    Outcome = "Failed"
	Cancelled Outcome = "Cancelled"
)

// Result is the report of a Job. It stays in the state Secret after the pod is gone.
type Result struct {
	Operation Operation `json:"operation"`
	Attempt   int32     `json:"attempt"`
	Outcome   Outcome   `json:"outcome"`
	// Reason is one CamelCase word, such as ChecksumMismatch or PreCreateCheckFailed; empty on
	// success.
	Reason string `json:"reason,omitempty"`
	// Class is one of the classes of api/rke/v1; empty on success.
	Class string `json:"class,omitempty"`
	// Message is for users, redacted, at most 2 KiB.
	Message string `json:"message,omitempty"`
	// ServerMayExist reports whether a server may exist after this operation.
	ServerMayExist bool `json:"serverMayExist"`
	// Made is true if the cloud made a server in this attempt, even if the server was removed. An
	// existing server does not count.
	Made bool `json:"made,omitempty"`
	// Taken is the failure of an earlier attempt whose unfinished server this attempt took over;
	// empty for a server that was made or finished.
	Taken string `json:"taken,omitempty"`
	// Recorded are the IDs and addresses that the driver has recorded for a server that may exist;
	// set by a failed operation.
	Recorded string `json:"recorded,omitempty"`
	// Notes are facts that are not failures, such as a host key that could not be recorded.
	Notes     []string  `json:"notes,omitempty"`
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`

	// Delivery reports whether the bootstrap data reached the server; set by a create with
	// bootstrap data.
	Delivery *Delivery `json:"delivery,omitempty"`
	// ContactUntil is the time until which the pod of a successful create tries to log in to the
	// server, to record its host key; zero if it does not try, or has succeeded.
	ContactUntil time.Time `json:"contactUntil,omitzero"`
	// Retry and Looked are copied from the request; Retry is nil in results from before the field
	// existed.
	Retry  *string `json:"retry,omitempty"`
	Looked int32   `json:"looked,omitempty"`

	// Probe is set by the probe operation.
	Probe *ProbeReport `json:"probe,omitempty"`
	// Scan is set by the scan operation.
	Scan *ScanReport `json:"scan,omitempty"`
}

// Delivery reports whether the bootstrap data arrived on the server.
type Delivery struct {
	// Proven is nil if it could not be checked.
	Proven *bool `json:"proven,omitempty"`
	// ExitCode of a bootstrap script that failed on the server; the data has then arrived.
	ExitCode int `json:"exitCode,omitempty"`
	// Message is for people.
	Message string `json:"message"`
}

// ScanReport is the result of a scan.
type ScanReport struct {
	// Servers of the account with a tag that names a machine, of whatever cluster.
	Servers []ScannedServer `json:"servers"`
	// Within is the common prefix of the providerIDs of all servers that could be listed. Servers
	// outside of it were not listed and do not count as missing. Empty means all servers of the
	// driver.
	Within string `json:"within,omitempty"`
	// Removed are the IDs of servers that were removed, or were gone already.
	Removed []string `json:"removed,omitempty"`
}

// ScannedServer is a server that carries our tags.
type ScannedServer struct {
	// ID and Name at the cloud.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// ProviderID as a machine would have it; may be empty.
	ProviderID string `json:"providerID,omitempty"`
	// MachineUID, Machine, ClusterUID, Cluster and Management are the values of our tags; all but
	// the first may be empty.
	MachineUID string `json:"machineUID"`
	Machine    string `json:"machine,omitempty"`
	ClusterUID string `json:"clusterUID,omitempty"`
	Cluster    string `json:"cluster,omitempty"`
	Management string `json:"management,omitempty"`
	// Created is zero if the cloud does not report it.
	Created time.Time `json:"created,omitzero"`
}

// ProbeReport is the result of a probe; Flags is a JSON list as crdgen.DecodeFlags reads it.
type ProbeReport struct {
	// Digest is the sha256 of the verified binary, as cached.
	Digest string `json:"digest"`
	// Flags is the driver's flag list as JSON; to be decoded with crdgen.DecodeFlags, which bounds
	// it.
	Flags []byte `json:"flags"`
}
