package state

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// State is a state Secret, read as a whole and once. Missing parts are zero. A document that cannot
// be read has its own error, because the others are still valid.
type State struct {
	// Claim of the Job that was started last; Claimed is false before the first.
	Claim   Claim
	Claimed bool
	// Driver is the driver of the last Job; nil if it is not noted.
	Driver *DriverRef
	// InstanceName is the server's name, which must not change.
	InstanceName string
	// TaggedUID is the UID with which the machine's servers are tagged.
	TaggedUID string
	// Lost is true if the earlier content of the state was lost.
	Lost bool

	// The pod's documents.
	Journal Document[Journal]
	Server  Document[Server]
	Result  Document[Result]
	// Progress is the report of a running pod.
	Progress Document[Progress]
	// Verdict is the end of the last Job if it left no Result.
	Verdict Document[Result]
	// Credential of the last Job, if an earlier manager kept it in the state.
	Credential Document[Credential]
	// ExtractedConfig is the machine directory, an unverified tar.gz.
	ExtractedConfig []byte
	// PrivateKey, PublicKey and KnownHosts are the server's access data, OpenSSH formats.
	PrivateKey, PublicKey, KnownHosts []byte

	log []byte
}

// Document is one of the JSON documents; the zero value is a missing document.
type Document[T any] struct {
	Value T
	// Err is why an existing document cannot be read.
	Err  error
	read bool
}

// IsRead reports whether the document exists and was read.
func (d Document[T]) IsRead() bool { return d.read }

// IsAbsent reports whether the document does not exist. A document that cannot be read is not
// absent.
func (d Document[T]) IsAbsent() bool { return !d.read && d.Err == nil }

// Read reads a state Secret; nil stands for a missing one.
func Read(secret *corev1.Secret) State {
	if secret == nil {
		return Of(nil)
	}
	s := Of(secret.Data)
	s.Claim, s.Claimed = ReadClaim(secret.Annotations)
	if driver, ok := ReadDriver(secret.Annotations); ok {
		s.Driver = &driver
	}
	if s.InstanceName == "" {
		// Before the journal contains the server's name, use the name that the manager noted.
		if name := secret.Annotations[claimInstanceName]; len(validation.IsDNS1123Label(name)) == 0 {
			s.InstanceName = name
		}
	}
	s.Lost = secret.Annotations[claimLost] == "true"
	// Managers that did not note the UID in the tags used the UID in the label, which the last
	// claim wrote.
	for _, uid := range []string{secret.Annotations[rkev1.TaggedUIDAnnotation], secret.Labels[rkev1.MachineUIDLabel]} {
		if s.TaggedUID == "" && len(validation.IsValidLabelValue(uid)) == 0 {
			s.TaggedUID = uid
		}
	}
	return s
}

// Of reads the data of a state Secret, without the manager's notes.
func Of(data map[string][]byte) State {
	s := State{
		Journal: documentOf(ReadJournal(data)), Server: documentOf(ReadServer(data)), Result: documentOf(ReadResult(data, ResultKey)), Progress: documentOf(ReadProgress(data)),
		Verdict: documentOf(ReadResult(data, VerdictKey)), Credential: documentOf(ReadCredential(data)),
		ExtractedConfig: data[ExtractedConfigKey], PrivateKey: data[SSHPrivateKeyKey], PublicKey: data[SSHPublicKeyKey],
		KnownHosts: data[SSHKnownHostsKey], log: data[LogKey],
	}
	s.InstanceName = s.Journal.Value.InstanceName
	return s
}

func documentOf[T any](value T, err error) Document[T] {
	if errors.Is(err, ErrNoDocument) {
		return Document[T]{}
	}
	return Document[T]{Value: value, Err: err, read: err == nil}
}

// NothingMade reports whether the state shows that no driver was ever asked for a server, so that
// none has to be removed. A document that cannot be read does not show this.
func (s State) NothingMade() bool {
	return s.Journal.IsAbsent() && s.Server.IsAbsent() && len(s.ExtractedConfig) == 0
}

// ServerMayExist reports whether a server may exist, according to the state. A document that cannot
// be read may mean a server.
func (s State) ServerMayExist() bool {
	for _, err := range []error{s.Journal.Err, s.Server.Err, s.Result.Err} {
		if err != nil {
			return true
		}
	}
	if s.Journal.IsRead() {
		return s.Journal.Value.Phase != PhaseGone
	}
	return !s.NothingMade()
}

// LogTail returns the end of the last operation's log.
func (s State) LogTail() string {
	return Printable(string(s.log[max(0, len(s.log)-maxLogTail):]), maxLogTail)
}
