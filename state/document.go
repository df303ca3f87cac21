package state

import (
	"time"

	"github.com/drover-project/drover/clouds"
)

// Operation is what a Job does.
type Operation string

// The operations of cmd/machine.
const (
	// Probe downloads and verifies an external driver and reads its flags.
	Probe Operation = "probe"
	// Create makes the server, or finds the one an earlier attempt made, and applies the bootstrap data.
	Create Operation = "create"
	// Remove makes sure that no server is left.
	Remove Operation = "remove"
	// Scan lists the servers of an account that carry our tags, and removes those that the request names.
	Scan Operation = "scan"
)

// operations have the empty one too: documents of tests and of other systems may not say which it was.
var operations = []Operation{"", Probe, Create, Remove, Scan}

// Keys of the state Secret, <m>-machine-state.
const (
	// ExtractedConfigKey is the machine directory as rancher/machine writes it: a tar.gz (rancher-provv2.md §10.3).
	ExtractedConfigKey = "extractedConfig"
	// SSHPrivateKeyKey, SSHPublicKeyKey and SSHKnownHostsKey are the server's access data, OpenSSH formats.
	SSHPrivateKeyKey = "ssh-privatekey"
	SSHPublicKeyKey  = "ssh-publickey"
	SSHKnownHostsKey = "ssh-knownhosts"
	// ServerKey holds a Server as JSON.
	ServerKey = "server.json"
	// JournalKey holds a Journal as JSON: written before the driver is called and whenever its record changes.
	JournalKey = "journal.json"
	// ResultKey holds the Result of the last finished operation as JSON.
	ResultKey = "result.json"
	// CredentialKey, in the Secret <m>-machine-credential, holds a Credential as JSON: the one given to the last Job, kept so that
	// the server can still be removed when the credential's Secret is gone. Earlier managers kept it in the state.
	CredentialKey = "credential.json"
	// VerdictKey, the one key that the manager writes, holds a Result as JSON: how the last Job ended whose pod left none, as Kubernetes told it. The Job and its
	// pod, which told it, do not stay.
	VerdictKey = "verdict.json"
	// LogKey holds the redacted end of the last operation's log, at most MaxLogBytes.
	LogKey = "log.txt"
)

// MaxLogBytes bounds the log kept in the state Secret.
const MaxLogBytes = 64 << 10

// Credential is what a driver is given of a credential Secret.
type Credential struct {
	// Name of the Secret as the machine says it.
	Name string `json:"name,omitempty"`
	// Version of the Secret that had this content first; it tells whether another attempt has another credential.
	Version string `json:"version,omitempty"`
	// Env and Files as in a Request.
	Env   map[string]string `json:"env,omitempty"`
	Files map[string][]byte `json:"files,omitempty"`
}

// DriverRef says which driver to run and where its binary comes from.
type DriverRef struct {
	// Name as in docker-machine-driver-<name>.
	Name string `json:"name"`
	// Builtin drivers are linked into cmd/machine; the fields below are then empty.
	Builtin bool `json:"builtin,omitempty"`
	// Digest is the sha256 of the verified binary in the driver cache (namespace driver.CacheNamespace); tried first.
	Digest string `json:"digest,omitempty"`
	// URL and Checksum are the fallback, and what Probe downloads.
	URL      string `json:"url,omitempty"`
	Checksum string `json:"checksum,omitempty"`
	// SkipChecksum accepts any content.
	SkipChecksum bool `json:"skipChecksum,omitempty"`
}

// Phase is how far an operation came.
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
	// PhaseLost: what the state had said before was lost; a server may exist.
	PhaseLost Phase = "Lost"
)

// Journal is the note of what may exist, written before it can.
type Journal struct {
	Operation    Operation `json:"operation"`
	Attempt      int32     `json:"attempt"`
	Phase        Phase     `json:"phase"`
	InstanceName string    `json:"instanceName,omitempty"`
	Driver       string    `json:"driver,omitempty"`
	Time         time.Time `json:"time"`
}

// Server is what is known of a server; no secrets.
type Server = clouds.Server

// Address of a server.
type Address = clouds.Address

// Outcome is how an operation ended.
type Outcome string

// Outcomes of an operation.
const (
	Succeeded Outcome = "Succeeded"
	Failed    Outcome = "Failed"
	Cancelled Outcome = "Cancelled"
)

// Result is what a Job reports. It stays in the state Secret after the pod is gone.
type Result struct {
	Operation Operation `json:"operation"`
	Attempt   int32     `json:"attempt"`
	Outcome   Outcome   `json:"outcome"`
	// Reason is one CamelCase word, such as ChecksumMismatch or PreCreateCheckFailed; empty on success.
	Reason string `json:"reason,omitempty"`
	// Class is one of the classes of api/rke/v1; empty on success.
	Class string `json:"class,omitempty"`
	// Message is for people, redacted, at most 2 KiB.
	Message string `json:"message,omitempty"`
	// ServerMayExist tells whether a server may be there after this operation.
	ServerMayExist bool `json:"serverMayExist"`
	// Made tells that this attempt had the cloud make a server, whatever became of it. One that was there before does not count.
	Made bool `json:"made,omitempty"`
	// Taken says of a server of an earlier attempt, which its driver did not finish, how it had failed; empty for one that was made or finished.
	Taken string `json:"taken,omitempty"`
	// Recorded are the IDs and addresses that the driver has recorded of a server that may be there, set by an operation that failed.
	Recorded string `json:"recorded,omitempty"`
	// Notes are things to know that are no failure, such as a host key that could not be recorded.
	Notes     []string  `json:"notes,omitempty"`
	StartTime time.Time `json:"startTime"`
	EndTime   time.Time `json:"endTime"`

	// Delivery says whether the bootstrap data reached the server; set by a create that had any.
	Delivery *Delivery `json:"delivery,omitempty"`
	// ContactUntil is until when the pod of a create that has succeeded tries to log in to the server, to record its host key; zero when it
	// does not, or has.
	ContactUntil time.Time `json:"contactUntil,omitzero"`
	// Retry and Looked are those of the request; Retry is nil in results of before it was there.
	Retry  *string `json:"retry,omitempty"`
	Looked int32   `json:"looked,omitempty"`

	// Probe is set by the probe operation.
	Probe *ProbeReport `json:"probe,omitempty"`
	// Scan is set by the scan operation.
	Scan *ScanReport `json:"scan,omitempty"`
}

// Delivery is what was seen on the server of the bootstrap data.
type Delivery struct {
	// Proven is nil when it could not be looked at.
	Proven *bool `json:"proven,omitempty"`
	// ExitCode is that of a bootstrap script that has failed on the server; the data arrived then.
	ExitCode int `json:"exitCode,omitempty"`
	// Message is for people.
	Message string `json:"message"`
}

// ScanReport is what a scan found and removed.
type ScanReport struct {
	// Servers of the account with a tag that names a machine, of whatever cluster.
	Servers []ScannedServer `json:"servers"`
	// Within is what the providerIDs of all servers that could be listed begin with: of others nothing was told, so that they
	// are not missing. Empty means all of the driver's.
	Within string `json:"within,omitempty"`
	// Removed are the IDs of those that were removed, or were gone already.
	Removed []string `json:"removed,omitempty"`
}

// ScannedServer is a server that carries our tags.
type ScannedServer struct {
	// ID and Name at the cloud.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// ProviderID as a machine would have it; may be empty.
	ProviderID string `json:"providerID,omitempty"`
	// MachineUID, Machine, ClusterUID, Cluster and Management are the values of our tags; all but the first may be empty.
	MachineUID string `json:"machineUID"`
	Machine    string `json:"machine,omitempty"`
	ClusterUID string `json:"clusterUID,omitempty"`
	Cluster    string `json:"cluster,omitempty"`
	Management string `json:"management,omitempty"`
	// Created is zero when the cloud does not tell.
	Created time.Time `json:"created,omitzero"`
}

// ProbeReport is what a probe found out; Flags is a JSON list as crdgen.DecodeFlags reads it.
type ProbeReport struct {
	// Digest is the sha256 of the verified binary, as cached.
	Digest string `json:"digest"`
	// Flags is the driver's flag list as JSON; to be decoded with crdgen.DecodeFlags, which bounds it.
	Flags []byte `json:"flags"`
}
