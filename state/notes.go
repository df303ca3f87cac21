package state

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Claim is the note, on the state Secret, of the last started Job. It is written before the Job, so
// that no number is used twice, and a failed attempt is remembered after its Job is gone.
type Claim struct {
	Operation Operation
	// Attempt is the Job's number. Create and Remove count apart, each from 1.
	Attempt int32
	// Try counts the attempts since Hash last changed: the back-off starts again after a change.
	Try int32
	// Made counts the attempts among them that made a server and then failed, before this one: each
	// cost money.
	Made int32
	// Hash of the request.
	Hash string
}

// MaxAttempt is the highest accepted number: a pod can overwrite its number. At the longest
// back-off, it takes years to reach it.
const MaxAttempt = 100_000

// Again returns the claim of the next attempt, with the given try and with Made at 0. After
// MaxAttempt the numbers start again at 1.
func (c Claim) Again(try int32) Claim {
	return Claim{Operation: c.Operation, Attempt: c.Attempt%MaxAttempt + 1, Try: try}
}

// Annotations of the state Secret.
const (
	claimOperation = "drover.cattle.io/claimed-operation"
	claimAttempt   = "drover.cattle.io/claimed-attempt"
	claimTry       = "drover.cattle.io/claimed-try"
	claimMade      = "drover.cattle.io/claimed-made"
	// The driver and the name of the server are noted too, so that the server can be removed
	// without its NodeDriver, even if the status was lost, as when clusterctl moves a cluster.
	claimDriver       = "drover.cattle.io/driver"
	claimInstanceName = "drover.cattle.io/instance-name"
	claimLost         = "drover.cattle.io/state-lost"
)

// Notes are the manager's annotations on a state Secret.
type Notes struct {
	Claim Claim
	// Driver and InstanceName are the driver and the name of the server.
	Driver       DriverRef
	InstanceName string
	// TaggedUID is the UID with which the machine's servers are tagged.
	TaggedUID string
	// PodAccount is the service account of the machine's Jobs.
	PodAccount string
	// Lost is true if the earlier content of the state was lost.
	Lost bool
}

// Annotations returns the notes as annotations.
func (n Notes) Annotations() (map[string]string, error) {
	driver, err := json.Marshal(n.Driver)
	if err != nil {
		return nil, fmt.Errorf("encoding the driver: %w", err)
	}
	annotations := map[string]string{
		claimOperation:              string(n.Claim.Operation),
		claimAttempt:                strconv.Itoa(int(n.Claim.Attempt)),
		claimTry:                    strconv.Itoa(int(n.Claim.Try)),
		rkev1.RequestHashAnnotation: n.Claim.Hash,
		claimDriver:                 string(driver),
		claimInstanceName:           n.InstanceName,
		rkev1.TaggedUIDAnnotation:   n.TaggedUID,
		rkev1.PodAccountAnnotation:  n.PodAccount,
	}
	if n.Claim.Made > 0 {
		annotations[claimMade] = strconv.Itoa(int(n.Claim.Made))
	}
	if n.Claim.Operation == Remove {
		// A move does not preserve the deletion of the machine, so it has to wait. During a create,
		// the machine's own annotation blocks the move.
		annotations[rkev1.BlockMoveAnnotation] = ""
	}
	if n.Lost {
		NoteLost(annotations)
	}
	return annotations, nil
}

// DropClaim removes the claim from a state Secret's annotations, so that the next Job verifies its
// result again.
func DropClaim(annotations map[string]string) {
	for _, key := range []string{claimOperation, claimAttempt, claimTry, rkev1.RequestHashAnnotation, rkev1.BlockMoveAnnotation} {
		delete(annotations, key)
	}
}

// CopyNotes returns the notes among a state Secret's annotations, for a copy of it.
func CopyNotes(annotations map[string]string) map[string]string {
	notes := map[string]string{}
	for _, key := range []string{claimOperation, claimAttempt, claimTry, claimMade, rkev1.RequestHashAnnotation, claimDriver, claimInstanceName, claimLost,
		rkev1.TaggedUIDAnnotation, rkev1.PodAccountAnnotation} {
		if text, ok := annotations[key]; ok {
			notes[key] = text
		}
	}
	return notes
}

// ReadDriver reads the driver of the last Job from a state Secret's annotations. A value that the
// manager cannot have written, because the machine's status would reject it, counts as missing.
func ReadDriver(annotations map[string]string) (driver DriverRef, ok bool) {
	err := json.Unmarshal([]byte(annotations[claimDriver]), &driver)
	if err != nil || driver.Name == "" || len(validation.IsValidLabelValue(driver.Name)) > 0 ||
		len(driver.URL) > maxURL || len(driver.Checksum) > maxChecksum || len(driver.Digest) > maxChecksum {
		return DriverRef{}, false
	}
	return driver, true
}

// NoteLost notes in a state Secret's annotations that its earlier content was lost (see
// Request.MayExist).
func NoteLost(annotations map[string]string) { annotations[claimLost] = "true" }

// ReadClaim reads the claim from a state Secret; ok is false without a valid claim.
func ReadClaim(annotations map[string]string) (claim Claim, ok bool) {
	operation := Operation(annotations[claimOperation])
	attempt, ok := ReadCount(annotations[claimAttempt], 1)
	if !ok || (operation != Create && operation != Remove) {
		return Claim{}, false
	}
	try, _ := ReadCount(annotations[claimTry], 1)
	made, _ := ReadCount(annotations[claimMade], 0)
	return Claim{Operation: operation, Attempt: attempt, Try: try, Made: made, Hash: annotations[rkev1.RequestHashAnnotation]}, true
}

// ReadCount reads a number from least to MaxAttempt; for any other text it returns least.
func ReadCount(text string, least int32) (number int32, ok bool) {
	read, err := strconv.ParseInt(text, 10, 32)
	if err != nil || int32(read) < least || read > MaxAttempt {
		return least, false
	}
	return int32(read), true
}

// ReadCredential reads the credential of the last Job. A credential whose name a machine's status
// would reject counts as missing.
func ReadCredential(data map[string][]byte) (Credential, error) {
	var credential Credential
	if err := decode(data, CredentialKey, maxCredential, &credential); err != nil {
		return Credential{}, err
	}
	if credential.Name == "" || len(credential.Name) > maxCredentialName {
		return Credential{}, fmt.Errorf("reading %s: %w", CredentialKey, ErrNoDocument)
	}
	return credential, nil
}
