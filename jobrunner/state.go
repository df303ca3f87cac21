package jobrunner

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Claim is the note, on the state Secret, of the Job that was started last. It is written before the Job is, so that a
// number is never given twice and a failed attempt is remembered after its Job is gone.
type Claim struct {
	Operation Operation
	// Attempt is the Job's number. Create and Remove count apart, each from 1.
	Attempt int32
	// Try counts the attempts since Hash last changed: back-off starts again when the user has changed something.
	Try int32
	// Hash of what was asked for.
	Hash string
}

// MaxAttempt is the highest number that is believed: a pod can write what it likes where its number stands. At the slowest
// pace it is reached after years.
const MaxAttempt = 100_000

// Again is the claim of the attempt after this one, as the given try. After the highest number they begin anew.
func (c Claim) Again(try int32) Claim {
	return Claim{Operation: c.Operation, Attempt: c.Attempt%MaxAttempt + 1, Try: try}
}

// Annotations of the state Secret.
const (
	claimOperation = "drover.cattle.io/claimed-operation"
	claimAttempt   = "drover.cattle.io/claimed-attempt"
	claimTry       = "drover.cattle.io/claimed-try"
	// What the server is made with stands here too, so that it can be removed without its NodeDriver, also after status
	// was lost, as it is when clusterctl moves a cluster.
	claimDriver       = "drover.cattle.io/driver"
	claimInstanceName = "drover.cattle.io/instance-name"
	claimLost         = "drover.cattle.io/state-lost"
)

// Notes are those of a state Secret's annotations that StateSecret writes, for a copy of it.
func Notes(annotations map[string]string) map[string]string {
	notes := map[string]string{}
	for _, key := range []string{claimOperation, claimAttempt, claimTry, rkev1.RequestHashAnnotation, claimDriver, claimInstanceName, claimLost,
		rkev1.TaggedUIDAnnotation, rkev1.PodAccountAnnotation} {
		if text, ok := annotations[key]; ok {
			notes[key] = text
		}
	}
	return notes
}

// ReadDriver reads from a state Secret's annotations which driver the last Job ran. One that cannot have been written by the
// manager, for the machine's status would not take it, counts as none.
func ReadDriver(annotations map[string]string) (driver DriverRef, ok bool) {
	err := json.Unmarshal([]byte(annotations[claimDriver]), &driver)
	if err != nil || driver.Name == "" || len(validation.IsValidLabelValue(driver.Name)) > 0 ||
		len(driver.URL) > maxURL || len(driver.Checksum) > maxChecksum || len(driver.Digest) > maxChecksum {
		return DriverRef{}, false
	}
	return driver, true
}

// NoteLost notes among a state Secret's annotations what ReadLost reads.
func NoteLost(annotations map[string]string) { annotations[claimLost] = "true" }

// ReadLost reads from a state Secret's annotations that what it had said before was lost (see Request.MayExist).
func ReadLost(annotations map[string]string) bool { return annotations[claimLost] == "true" }

// ReadInstanceName reads from a state Secret the server's name, which must stay what it was. Empty when there is none yet.
func ReadInstanceName(annotations map[string]string, data map[string][]byte) string {
	if journal, err := ReadJournal(data); err == nil && journal.InstanceName != "" {
		return journal.InstanceName
	}
	if name := annotations[claimInstanceName]; isInstanceName(name) {
		return name
	}
	return ""
}

// ReadTaggedUID reads from a state Secret the UID with which the machine's servers are tagged. Before it was noted it was the one
// in the label, which the last claim wrote. Empty when neither is there.
func ReadTaggedUID(state metav1.Object) string {
	for _, uid := range []string{state.GetAnnotations()[rkev1.TaggedUIDAnnotation], state.GetLabels()[rkev1.MachineUIDLabel]} {
		if uid != "" && len(validation.IsValidLabelValue(uid)) == 0 {
			return uid
		}
	}
	return ""
}

// ReadClaim reads the note from a state Secret; ok is false when there is none.
func ReadClaim(annotations map[string]string) (claim Claim, ok bool) {
	operation := Operation(annotations[claimOperation])
	attempt, err := strconv.ParseInt(annotations[claimAttempt], 10, 32)
	if err != nil || attempt < 1 || attempt > MaxAttempt || (operation != Create && operation != Remove) {
		return Claim{}, false
	}
	try, err := strconv.ParseInt(annotations[claimTry], 10, 32)
	if err != nil || try < 1 || try > MaxAttempt {
		try = 1
	}
	return Claim{Operation: operation, Attempt: int32(attempt), Try: int32(try), Hash: annotations[rkev1.RequestHashAnnotation]}, true
}

// StateSecret is the machine's state Secret as the manager writes it: who owns it, which attempt is under way and with which
// credential. All other data are the pod's alone, so that applying this changes none of them. The finalizer keeps it when the
// machine's children are deleted before their server is.
func StateSecret(t Task) (*corev1.Secret, error) {
	driver, err := json.Marshal(t.Request.Driver)
	if err != nil {
		return nil, fmt.Errorf("encoding the driver: %w", err)
	}
	meta := t.meta(t.Request.StateSecret, t.ownLabels())
	meta.Finalizers = []string{rkev1.MachineFinalizer}
	meta.Annotations = map[string]string{
		claimOperation:              string(t.Request.Operation),
		claimAttempt:                strconv.Itoa(int(t.Request.Attempt)),
		claimTry:                    strconv.Itoa(int(t.Try)),
		rkev1.RequestHashAnnotation: t.Hash,
		claimDriver:                 string(driver),
		claimInstanceName:           t.Request.InstanceName,
		rkev1.TaggedUIDAnnotation:   t.Request.Tags[TagMachineUID],
		rkev1.PodAccountAnnotation:  t.accessName(),
	}
	if t.Request.MayExist {
		NoteLost(meta.Annotations)
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       rkev1.MachineStateSecretType,
	}
	if t.Credential.Name == "" {
		return secret, nil
	}
	credential, err := json.Marshal(t.Credential)
	if err != nil {
		return nil, fmt.Errorf("encoding the credential: %w", err)
	}
	secret.Data = map[string][]byte{CredentialKey: credential}
	return secret, nil
}

// ReadCredential reads the credential that the last Job was given; ok is false when it was given none, or one whose name no
// machine's status takes.
func ReadCredential(data map[string][]byte) (credential Credential, ok bool, err error) {
	if len(data[CredentialKey]) == 0 {
		return Credential{}, false, nil
	}
	if err := decode(data, CredentialKey, maxSecret, &credential); err != nil {
		return Credential{}, false, err
	}
	if credential.Name == "" || len(credential.Name) > maxCredentialName {
		return Credential{}, false, nil
	}
	return credential, true, nil
}

// ResultSecret is where a probe leaves its result.
func ResultSecret(t Task) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: t.meta(t.Request.StateSecret, t.jobLabels()),
		Type:       rkev1.MachineStateSecretType,
	}
}
