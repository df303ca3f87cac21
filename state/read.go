package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// Bounds of a pod's documents: the pod runs an unreviewed driver.
const (
	maxDocument    = 64 << 10
	MaxMessage     = 2 << 10
	maxRetry       = 64
	maxReason      = 64
	maxID          = 512
	maxAddresses   = 64
	maxCredential  = 1000 << 10
	maxNotes       = 16
	maxZone        = 256
	maxProgress    = 512
	maxResult      = 900 << 10
	maxLogTail     = 4 << 10
	maxName        = 63
	maxScanned     = 5000
	maxObjects     = 20_000 // in a document: each becomes as large as its type
	unnamedFailure = "Failed"

	// Those of a machine's status, see package crdgen.
	maxURL            = 2048
	maxChecksum       = 128
	maxCredentialName = 63 + 1 + 253

	firstYear, lastYear = 2000, 9000
)

// MaxAddress is the maximum number of characters of an address.
const MaxAddress = clouds.MaxAddress

// ErrNoDocument reports that the state Secret does not contain the document yet.
var ErrNoDocument = errors.New("the document does not exist")

// ReadResult reads the end of the last operation: the pod's own document (ResultKey) or, if the pod
// left none, the manager's (VerdictKey).
func ReadResult(data map[string][]byte, key string) (Result, error) {
	var r Result
	// A probe's result contains the driver's flags, so it is longer than other documents.
	if err := decode(data, key, maxResult, &r); err != nil {
		return Result{}, err
	}
	if r.Outcome != Succeeded && r.Outcome != Failed && r.Outcome != Cancelled {
		return Result{}, fmt.Errorf("reading %s: unknown outcome %.40q", key, string(r.Outcome))
	}
	if r.Attempt < 0 || r.Attempt > MaxAttempt {
		return Result{}, fmt.Errorf("reading %s: invalid attempt number %d", key, r.Attempt)
	}
	if !slices.Contains(operations, r.Operation) {
		return Result{}, fmt.Errorf("reading %s: unknown operation %.40q", key, string(r.Operation))
	}
	if r.Retry != nil && len(*r.Retry) > maxRetry {
		r.Retry = nil
	}
	r.Looked = min(max(r.Looked, 0), r.Attempt)
	r.Message, r.Taken, r.Recorded = Printable(r.Message, MaxMessage), Printable(r.Taken, MaxMessage), Printable(r.Recorded, MaxMessage)
	r.StartTime, r.EndTime, r.ContactUntil = plausible(r.StartTime), plausible(r.EndTime), plausible(r.ContactUntil)
	r.Notes = r.Notes[:min(len(r.Notes), maxNotes)]
	for i, note := range r.Notes {
		r.Notes[i] = Printable(note, MaxMessage)
	}
	if err := checkScan(r.Scan); err != nil {
		return Result{}, fmt.Errorf("reading %s: %w", key, err)
	}
	if r.Outcome == Succeeded {
		r.Reason, r.Class = "", ""
		return r, nil
	}
	r.Reason = reason(r.Reason)
	if !slices.Contains(classes, r.Class) {
		r.Class = rkev1.ClassUnknown
	}
	return r, nil
}

var classes = []string{rkev1.ClassInvalid, rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled, rkev1.ClassTransient}

// plausible drops an impossible time, such as one whose year in UTC has five digits: the API would
// reject the whole status.
func plausible(t time.Time) time.Time {
	if year := t.UTC().Year(); year < firstYear || year > lastYear {
		return time.Time{}
	}
	return t
}

// checkScan rejects a report with impossible values instead of truncating it: in a truncated
// report, servers would look gone.
func checkScan(report *ScanReport) error {
	if report == nil {
		return nil
	}
	if max(len(report.Servers), len(report.Removed)) > maxScanned {
		return fmt.Errorf("more than %d servers", maxScanned)
	}
	if isNoID(report.Within) {
		return errors.New("the place it looked at has characters or a length it cannot have")
	}
	for i := range report.Servers {
		s := &report.Servers[i]
		s.Name, s.Created = Printable(s.Name, maxName), plausible(s.Created)
		if slices.ContainsFunc([]string{s.ID, s.ProviderID, s.MachineUID, s.Machine, s.ClusterUID, s.Cluster}, isNoID) {
			return fmt.Errorf("server %d has characters or a length it cannot have", i+1)
		}
		if s.ID == "" || s.MachineUID == "" {
			return fmt.Errorf("server %d has no ID, or names no machine", i+1)
		}
	}
	return nil
}

// ReadServer reads the known facts about the server.
func ReadServer(data map[string][]byte) (Server, error) {
	var s Server
	if err := decode(data, ServerKey, maxDocument, &s); err != nil {
		return Server{}, err
	}
	for _, id := range []struct{ field, value string }{
		{"instanceID", s.InstanceID}, {"providerID", s.ProviderID}, {"sshUser", s.SSHUser}, {"sshHost", s.SSHHost}} {
		if isNoID(id.value) {
			return Server{}, fmt.Errorf("reading %s: %s has characters or a length it cannot have", ServerKey, id.field)
		}
	}
	if s.SSHPort < 0 || s.SSHPort > 65535 {
		return Server{}, fmt.Errorf("reading %s: port %d", ServerKey, s.SSHPort)
	}
	s.FailureDomain = Printable(s.FailureDomain, maxZone)
	addresses := s.Addresses
	s.Addresses = nil
	for _, a := range addresses {
		isKind := slices.Contains([]string{"ExternalIP", "InternalIP", "Hostname", "ExternalDNS", "InternalDNS"}, a.Type)
		isAddress := a.Address != "" && len(a.Address) <= MaxAddress && !isNoID(a.Address)
		if isKind && isAddress && len(s.Addresses) < maxAddresses {
			s.Addresses = append(s.Addresses, a)
		}
	}
	return s, nil
}

// ReadJournal reads the progress of the last operation. It drops an unknown operation instead of
// rejecting the journal: the phase shows whether a server may exist, which is enough for a removal.
func ReadJournal(data map[string][]byte) (Journal, error) {
	var j Journal
	if err := decode(data, JournalKey, maxDocument, &j); err != nil {
		return Journal{}, err
	}
	switch j.Phase {
	case PhaseIntent, PhaseRecorded, PhaseCreated, PhaseBootstrapped, PhaseRemoving, PhaseGone, PhaseLost:
	default:
		return Journal{}, fmt.Errorf("reading %s: unknown phase %.40q", JournalKey, string(j.Phase))
	}
	if !slices.Contains(operations, j.Operation) {
		j.Operation = ""
	}
	if len(validation.IsDNS1123Label(j.InstanceName)) > 0 {
		j.InstanceName = ""
	}
	return j, nil
}

// ReadProgress reads the report of a running Job.
func ReadProgress(data map[string][]byte) (Progress, error) {
	var p Progress
	if err := decode(data, ProgressKey, maxDocument, &p); err != nil {
		return Progress{}, err
	}
	p.Throttled, p.ThrottledSince = Printable(p.Throttled, maxProgress), plausible(p.ThrottledSince)
	return p, nil
}

func decode(data map[string][]byte, key string, limit int, into any) error {
	document, ok := data[key]
	if !ok || len(document) == 0 {
		return fmt.Errorf("reading %s: %w", key, ErrNoDocument)
	}
	if len(document) > limit {
		return fmt.Errorf("reading %s: %d bytes are more than the %d allowed", key, len(document), limit)
	}
	if bytes.Count(document, []byte("{")) > maxObjects {
		return fmt.Errorf("reading %s: more than %d objects", key, maxObjects)
	}
	if err := json.Unmarshal(document, into); err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	return nil
}

// isNoID reports whether a text has characters or a length that an ID or an address cannot have.
func isNoID(text string) bool {
	return len(text) > maxID || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII || r == 0x7f })
}

// reason turns a text into a valid reason of a condition: one word of letters and digits.
func reason(text string) string {
	word := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') {
			return r
		}
		return -1
	}, text)
	word = strings.TrimLeft(word, "0123456789")
	if word == "" {
		return unnamedFailure
	}
	return word[:min(len(word), maxReason)]
}

// Printable keeps the characters of a text that a terminal and the API accept, at most limit bytes.
func Printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || (unicode.IsPrint(r) && r != unicode.ReplacementChar) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
