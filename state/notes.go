package state

import (
	"encoding/json"
	"fmt"
	"strconv"

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
	// Made counts those of them that made a server and then failed, before this one: each cost money.
	Made int32
	// Hash of what was asked for.
	Hash string
}

// MaxAttempt is the highest number that is believed: a pod can write what it likes where its number stands. At the slowest
// pace it is reached after years.
const MaxAttempt = 100_000

// Again is the claim of the attempt after this one, as the given try, of which none has made a server. After the highest number
// they begin anew.
func (c Claim) Again(try int32) Claim {
	return Claim{Operation: c.Operation, Attempt: c.Attempt%MaxAttempt + 1, Try: try}
}

// Annotations of the state Secret.
const (
	claimOperation = "drover.cattle.io/claimed-operation"
	claimAttempt   = "drover.cattle.io/claimed-attempt"
	claimTry       = "drover.cattle.io/claimed-try"
	claimMade      = "drover.cattle.io/claimed-made"
	// What the server is made with stands here too, so that it can be removed without its NodeDriver, also after status
	// was lost, as it is when clusterctl moves a cluster.
	claimDriver       = "drover.cattle.io/driver"
	claimInstanceName = "drover.cattle.io/instance-name"
	claimLost         = "drover.cattle.io/state-lost"
)

// Notes are what the manager writes into a state Secret's annotations.
type Notes struct {
	Claim Claim
	// Driver and InstanceName are what the server is made with.
	Driver       DriverRef
	InstanceName string
	// TaggedUID is the UID with which the machine's servers are tagged.
	TaggedUID string
	// PodAccount is the service account of the machine's Jobs.
	PodAccount string
	// Lost says that what the state had said before was lost.
	Lost bool
}

// Annotations are the notes as they are written.
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
		// A move forgets that the machine is being deleted, so it has to wait. While a server is made, the machine itself says so.
		annotations[rkev1.BlockMoveAnnotation] = ""
	}
	if n.Lost {
		NoteLost(annotations)
	}
	return annotations, nil
}

// DropClaim takes the claim out of a state Secret's annotations: what it claimed has to be looked at anew.
func DropClaim(annotations map[string]string) {
	for _, key := range []string{claimOperation, claimAttempt, claimTry, rkev1.RequestHashAnnotation, rkev1.BlockMoveAnnotation} {
		delete(annotations, key)
	}
}

// CopyNotes returns those of a state Secret's annotations that are notes, for a copy of it.
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

// NoteLost notes among a state Secret's annotations that what it had said before was lost (see Request.MayExist).
func NoteLost(annotations map[string]string) { annotations[claimLost] = "true" }

// ReadClaim reads the note from a state Secret; ok is false when there is none.
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

// ReadCount reads a number from least to MaxAttempt; of what is none, least.
func ReadCount(text string, least int32) (number int32, ok bool) {
	read, err := strconv.ParseInt(text, 10, 32)
	if err != nil || int32(read) < least || read > MaxAttempt {
		return least, false
	}
	return int32(read), true
}

// ReadCredential reads the credential that the last Job was given. One whose name no machine's status takes counts as none.
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
