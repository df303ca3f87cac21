package planner

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// Cluster is a snapshot of a cluster, taken at one time.
type Cluster struct {
	// Name of the CAPI Cluster, or of the provisioning Cluster if there is one: what
	// object-authorized-for-clusters lists.
	Name string
	// Namespace of the control plane.
	Namespace string
	Spec      rkev1.RKEControlPlaneSpec
	// Releases is the catalogue of releases. It is nil if it could not be read; ReleasesError then
	// has the reason.
	Releases      *releases.Catalogue
	ReleasesError string
	// InfrastructureProvisioned is the CAPI Cluster's status.
	InfrastructureProvisioned bool
	// Endpoint is the host by which the user reaches the cluster's API, if the user set one.
	Endpoint string
	// InitMachineID is the machine that must be the init node, if the user set one.
	InitMachineID string
	// Bootstrapped is true if the cluster was created once; its data is only on its etcd machines.
	// It is stored in an object that a move takes along.
	Bootstrapped bool
	// Established: the cluster's API has answered once.
	Established bool
	// MadeBy is the ID of the machine that made it, which is the init node also when its plan
	// Secret has lost its marks; empty if that is not known.
	MadeBy string
	// OlderState is the name of the Secret that remembers it if the Secret is older than the CAPI
	// Cluster: an earlier Cluster of that name may have left it.
	OlderState  string
	Tokens      Tokens
	Authorities Authorities
	// Objects are the existing Secrets and ConfigMaps that References names. TooLarge is the object
	// with which they exceed MaxObjectBytes, if they do; the objects after it are then missing.
	Objects  map[ObjectKey]Object
	TooLarge *ObjectKey
	Machines []Machine
}

// Tokens of a cluster, as in <control plane>-rke-state: passwords, not yet the tokens for joining
// machines. Secret is the name of that Secret.
type Tokens struct{ Server, Agent, Secret string }

// KeyPair is a certificate and its key, both PEM.
type KeyPair struct{ Certificate, Key []byte }

// Authorities sign a cluster's certificates.
type Authorities struct {
	// Server signs the certificates of servers, Client those for clients, Proxy the API server's
	// certificate for extensions.
	Server, Client, Proxy KeyPair
	// EtcdServer signs the certificates of etcd's servers and clients, EtcdPeer the certificates of
	// its members.
	EtcdServer, EtcdPeer KeyPair
	// ServiceAccountKey signs tokens; PEM.
	ServiceAccountKey []byte
}

// Kinds of objects that a control plane refers to.
const (
	SecretKind    = "Secret"
	ConfigMapKind = "ConfigMap"
)

// ObjectKey names an object of the control plane's namespace, or as <namespace>:<name> the Secret
// of a credential.
type ObjectKey struct{ Kind, Name string }

// Object is the content of a Secret or a ConfigMap.
type Object struct {
	// Type of a Secret.
	Type string
	Data map[string][]byte
	// AuthorizedClusters is its annotation object-authorized-for-clusters.
	AuthorizedClusters string
}

// Roles of a machine.
type Roles struct{ Etcd, ControlPlane, Worker bool }

// RolesOf reads the labels of a CAPI Machine.
func RolesOf(labels map[string]string) Roles {
	return Roles{Etcd: labels[rkev1.EtcdRoleLabel] == "true", ControlPlane: labels[rkev1.ControlPlaneRoleLabel] == "true",
		Worker: labels[rkev1.WorkerRoleLabel] == "true"}
}

// IsServer reports whether the machine runs the distribution's server.
func (r Roles) IsServer() bool { return r.Etcd || r.ControlPlane }

// Machine is a snapshot of a machine.
type Machine struct {
	// Name of the CAPI Machine, which people know.
	Name string
	// ID is the label rke.cattle.io/machine-id of its RKEBootstrap.
	ID string
	// Labels of the CAPI Machine, which selectors match.
	Labels map[string]string
	Roles  Roles
	// OS is empty for linux.
	OS string
	// NodeName is empty if the server's own name is used.
	NodeName string
	// InstanceName names the Node of an existing host, which keeps its own host name. It is empty
	// for other servers. NodeName and the argument node-name take precedence.
	InstanceName string
	Deleting     bool
	// Restored is true if it is being deleted only because it came from a backup and its owners do
	// not exist: its server stays unchanged.
	Restored bool
	// Joined is true if a Node of the cluster is known to be this machine.
	Joined bool
	// KubeletVersion is its Node's version, such as v1.36.3+k3s1; empty while it is unknown.
	KubeletVersion string
	// Provisioned is the infra machine's status; ProviderID and addresses come from it, too.
	Provisioned              bool
	ProviderID               string
	InternalIPs, ExternalIPs []string
	// EarlierNode is the Node of an earlier server of the machine while a kubelet still reports it;
	// its name is empty otherwise.
	EarlierNode Node
	NodeLabels  map[string]string
	NodeTaints  []corev1.Taint
	// Retry stands for the user's last request to deliver a failed plan again; empty without one.
	Retry string
	// Invalid explains which setting for its Node, in the machine or its infra machine, is invalid;
	// empty otherwise. Labels and taints are valid then.
	Invalid string
	// Secret is its plan Secret; nil until the bootstrap provider has made it.
	Secret *Secret
}

// Node is a Node of the cluster.
type Node struct{ Name, ProviderID string }

// Secret is a plan Secret: its data without the plan, the facts about the plan, and the planner's
// own labels and annotations.
type Secret struct {
	Data      map[string][]byte
	Delivered *Delivered
	InitNode  bool
	JoinedTo  string
	// Retried is the Machine's Retry at the time of the last delivery.
	Retried string
	// AgentServer is the server from which the agent has registered, as its cloud names it; empty
	// if the agent does not know.
	AgentServer string
	// SilentSince is the time of the last contact with an agent that has lost its access; zero if
	// it has not, or if it is unknown.
	SilentSince time.Time
	// Overdue: the plan is applied, and for longer than ProbesPatience the machine is not as it
	// should be.
	Overdue bool
}

// ProbesPatience is how long unhealthy probes are normal: a distribution starts in less time.
const ProbesPatience = 5 * time.Minute

// MaxReferences bounds how many objects a control plane may name.
const MaxReferences = 100

// MaxObjectBytes bounds the used content of these objects in total.
const MaxObjectBytes = 4 << 20

// References returns the objects that a control plane names, to read and watch them. It returns nil
// if the control plane names too many.
func References(spec rkev1.RKEControlPlaneSpec) []ObjectKey {
	named := NewUses(spec)
	if len(named) > MaxReferences {
		return nil
	}
	return slices.SortedFunc(maps.Keys(named), func(a, b ObjectKey) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
}

// Uses maps the objects that a control plane names to the keys that its plans use: other keys need
// not be kept.
type Uses map[ObjectKey]map[string]bool

// Keys of registries' Secrets, and of credentials for snapshots.
var (
	registryKeys = []string{rkev1.AuthConfigUsername, rkev1.AuthConfigPassword, rkev1.AuthConfigAuth, rkev1.AuthConfigIdentityToken,
		corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, corev1.DockerConfigJsonKey}
	certificateKeys = []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, "ca.crt"}
	// Rancher writes the kind of the credential before them.
	snapshotKeys = []string{"accessKey", "-accessKey", "secretKey", "-secretKey", "defaultBucket", "-defaultBucket", "defaultRegion", "-defaultRegion",
		"defaultFolder", "-defaultFolder", "defaultEndpoint", "-defaultEndpoint", "defaultEndpointCA", "-defaultEndpointCA",
		"defaultSkipSSLVerify", "-defaultSkipSSLVerify"}
)

// NewUses goes through a specification.
func NewUses(spec rkev1.RKEControlPlaneSpec) Uses {
	u := Uses{}
	if spec.Registries != nil {
		for _, registry := range spec.Registries.Configs {
			u.add(SecretKind, registry.AuthConfigSecretName, registryKeys...)
			u.add(SecretKind, registry.TLSSecretName, certificateKeys...)
		}
	}
	for _, files := range spec.MachineSelectorFiles {
		for _, source := range files.FileSources {
			u.items(SecretKind, source.Secret)
			u.items(ConfigMapKind, source.ConfigMap)
		}
	}
	if spec.ETCD != nil && spec.ETCD.S3 != nil {
		u.add(SecretKind, spec.ETCD.S3.CloudCredentialName, snapshotKeys...)
	}
	u.cloudProvider(spec.MachineGlobalConfig)
	for _, entry := range spec.MachineSelectorConfig {
		u.cloudProvider(entry.Config)
	}
	return u
}

func (u Uses) cloudProvider(config rkev1.Config) {
	var text string
	if json.Unmarshal(config[cloudProviderConfig].Raw, &text) == nil {
		_, name := secretOf(text)
		u.add(SecretKind, name, cloudProviderKey)
	}
}

func (u Uses) items(kind string, source rkev1.K8sObjectFileSource) {
	u.add(kind, source.Name)
	for _, item := range source.Items {
		u.add(kind, source.Name, item.Key)
	}
}

// add notes keys of an object. Once there are more objects than are read, no further one is noted.
func (u Uses) add(kind, name string, keys ...string) {
	key := ObjectKey{kind, name}
	if name == "" || u[key] == nil && len(u) > MaxReferences {
		return
	}
	if u[key] == nil {
		u[key] = map[string]bool{}
	}
	for _, one := range keys {
		u[key][one] = true
	}
}

// Of is the part of an object's data that is used. A key that begins with - stands for all that end
// so.
func (u Uses) Of(key ObjectKey, data map[string][]byte) map[string][]byte {
	used := map[string][]byte{}
	for name, value := range data {
		if u[key][name] || u[key][name[max(0, strings.LastIndex(name, "-")):]] {
			used[name] = value
		}
	}
	return used
}
