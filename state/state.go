package state

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// State is a state Secret, read as a whole and once. What is missing in it is zero; a document that cannot be read says so by
// itself, for the others are good all the same.
type State struct {
	// Claim of the Job that was started last; Claimed is false before the first.
	Claim   Claim
	Claimed bool
	// Driver is what the last Job ran; nil when that is not noted.
	Driver *DriverRef
	// InstanceName is the server's name, which must stay what it was.
	InstanceName string
	// TaggedUID is the UID with which the machine's servers are tagged.
	TaggedUID string
	// Lost says that what the state had said before was lost.
	Lost bool

	// What the pod left.
	Journal Document[Journal]
	Server  Document[Server]
	Result  Document[Result]
	// Verdict is how the last Job ended that left no Result.
	Verdict Document[Result]
	// Credential is the one given to the last Job, where an earlier manager kept it.
	Credential Document[Credential]
	// ExtractedConfig is the machine directory, a tar.gz that nobody has looked at.
	ExtractedConfig []byte
	// PrivateKey, PublicKey and KnownHosts are the server's access data, OpenSSH formats.
	PrivateKey, PublicKey, KnownHosts []byte

	log []byte
}

// Document is one of the JSON documents; the zero value is one that is not there.
type Document[T any] struct {
	Value T
	// Err says why a document that is there cannot be read.
	Err  error
	read bool
}

// IsRead reports whether the document is there and was read.
func (d Document[T]) IsRead() bool { return d.read }

// IsAbsent reports whether there is no such document. One that cannot be read is not absent.
func (d Document[T]) IsAbsent() bool { return !d.read && d.Err == nil }

// Read reads a state Secret; nil is one that is not there.
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
		// Before the journal has the server's name, it is the one that the manager noted.
		if name := secret.Annotations[claimInstanceName]; len(validation.IsDNS1123Label(name)) == 0 {
			s.InstanceName = name
		}
	}
	s.Lost = secret.Annotations[claimLost] == "true"
	// Before the UID in the tags was noted it was the one in the label, which the last claim wrote.
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
		Journal: documentOf(ReadJournal(data)), Server: documentOf(ReadServer(data)), Result: documentOf(ReadResult(data, ResultKey)),
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

// NothingMade reports whether the state shows that no driver was ever asked for a server: then none has to be removed. A
// document that cannot be read shows no such thing.
func (s State) NothingMade() bool {
	return s.Journal.IsAbsent() && s.Server.IsAbsent() && len(s.ExtractedConfig) == 0
}

// ServerMayExist reports whether there may be a server, as far as the state tells. What cannot be read may mean one.
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

// LogTail is the end of the last operation's log.
func (s State) LogTail() string {
	return Printable(string(s.log[max(0, len(s.log)-maxLogTail):]), maxLogTail)
}
