package jobrunner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/state"
)

// Keys of the request Secret, which is mounted at RequestDir in the pod.
const (
	// RequestDir is the mount path of the request Secret in the pod.
	RequestDir = "/run/drover/request"
	// RequestKey holds a Request as JSON.
	RequestKey = "request.json"
	// BootstrapKey holds the bootstrap data as the bootstrap provider wrote it.
	BootstrapKey = "bootstrap"
	// CABundleKey holds further CA certificates, PEM.
	CABundleKey = "ca.pem"
)

// Request is the task of a Job. It is sent in a Secret because options may be secret.
type Request struct {
	// Operation to do; exactly one.
	Operation state.Operation `json:"operation"`
	// Attempt counts from 1.
	Attempt int32 `json:"attempt"`
	// Machine the server is for; empty for Probe.
	Machine MachineRef `json:"machine,omitzero"`
	// Driver to run.
	Driver state.DriverRef `json:"driver"`
	// InstanceName is the server's name at the cloud and its hostname.
	InstanceName string `json:"instanceName,omitempty"`
	// Options are flag name → string, bool, number (integers) or list of strings; aliased files are
	// in Files.
	Options map[string]any `json:"options,omitempty"`
	// Files are flag name → content; the driver gets the path of a file with this content.
	Files map[string][]byte `json:"files,omitempty"`
	// UserData is how the driver takes user data; its habit is clouds.Unknown when the manager does
	// not know.
	UserData clouds.UserData `json:"userData,omitzero"`
	// CredentialEnv are the environment variables through which the driver takes the cloud
	// credential.
	CredentialEnv map[string]string `json:"credentialEnv,omitempty"`
	// Public are the names of CredentialEnv whose values may be shown, such as a region.
	Public []string `json:"public,omitempty"`
	// Secrets are the values, besides CredentialEnv, that must be redacted from every output.
	Secrets []string `json:"secrets,omitempty"`
	// Tags are set on the server if the driver has a flag for tags or labels. The finder searches
	// for them.
	Tags map[string]string `json:"tags,omitempty"`
	// Namespace and StateSecret name the Secret for the state; for Probe it takes the result.
	Namespace   string `json:"namespace"`
	StateSecret string `json:"stateSecret"`
	// StateUID is the UID of that Secret. If it differs, the Job or the Secret was restored from a
	// backup, and the Job's task may have been done long ago.
	StateUID types.UID `json:"stateUID,omitempty"`
	// ProviderIDTemplate of an external driver; may be empty.
	ProviderIDTemplate string `json:"providerIDTemplate,omitempty"`
	// ProviderID that the user has set, if any; then none is derived.
	ProviderID string `json:"providerID,omitempty"`
	// HasBootstrap is true if BootstrapKey is present (it may be empty for a server without
	// bootstrap data).
	HasBootstrap bool `json:"hasBootstrap,omitempty"`
	// SSHTimeoutSeconds bounds the login if SSHContact does not: to record the host key after the
	// server was made (120 by default) and, for drivers without a user data flag, to bootstrap (300
	// by default).
	SSHTimeoutSeconds int32 `json:"sshTimeoutSeconds,omitempty"`
	// SSHContact is the machine's own.
	SSHContact rkev1.SSHContact `json:"sshContact,omitzero"`
	// MayExist is true if a server may have been made although the state does not say so, because
	// the state was lost.
	MayExist bool `json:"mayExist,omitempty"`
	// Retry stands for the value of the annotation with which the user asks for another attempt.
	Retry string `json:"retry,omitempty"`
	// Looked is the last attempt that reported a doubt (reason ServerMayExist) before the user
	// requested another attempt. The user has then checked the cloud, and no server of this or an
	// earlier attempt exists.
	Looked int32 `json:"looked,omitempty"`
	// Registered is the server from which the machine's agent had registered when the manager
	// requested this attempt. It is empty if the manager cannot know, because the bootstrap data
	// comes from another provider.
	Registered string `json:"registered,omitempty"`
	// Abandon makes Remove succeed although resources may remain: the user has given them up.
	Abandon bool `json:"abandon,omitempty"`
	// Scan lists the servers that Scan removes; without it they are only listed.
	Scan []ScanTarget `json:"scan,omitempty"`
	// ScanNotAfter is when Scan must begin no removal any more: by then a server may have a machine
	// again.
	ScanNotAfter time.Time `json:"scanNotAfter,omitzero"`
}

// Values of Request.Registered; any other one is the server's ID, as the agent has it from its cloud.
const (
	// RegisteredNone: no agent has registered with the machine's bootstrap token.
	RegisteredNone = "none"
	// RegisteredUnknown: an agent has registered, and its server is not known.
	RegisteredUnknown = "unknown"
)

// ScanTarget is a server to remove: only if it still has the tag of that machine.
type ScanTarget struct {
	ID         string `json:"id"`
	MachineUID string `json:"machineUID"`
	// Beside is the machine's recorded server, which has the same tag: the one to remove was made
	// beside it. Empty for a server whose machine does not exist.
	Beside string `json:"beside,omitempty"`
}

// MachineRef is the machine that a server belongs to; it becomes tags of the server.
type MachineRef struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	UID         string `json:"uid"`
	Kind        string `json:"kind"`
	ClusterName string `json:"clusterName,omitempty"`
	ClusterUID  string `json:"clusterUID,omitempty"`
	// Management is the management cluster: the UID of its namespace kube-system.
	Management string `json:"management,omitempty"`
}
