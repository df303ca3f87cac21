package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/api/plan"
)

// findings are facts that the agent knows beside its journal.
type findings struct {
	// status has the fields that do not come from the journal.
	status plan.AgentStatus
	// trouble is why the agent cannot continue, if the cause is not a step of the plan.
	trouble  string
	probes   map[string]plan.ProbeStatus
	periodic map[string]plan.PeriodicOutput
}

// report is the Secret's data as it is to be: the agent's own keys, each only when it says
// something else than before. It is the same data when nothing is to be written, and with an error.
func report(v view, j Journal, f findings) (map[string][]byte, error) {
	next := map[string][]byte{}
	maps.Copy(next, v.data)
	ours := j.Checksum != "" && j.Checksum == v.checksum
	if v.claims(j) {
		next[plan.KeyState], next[plan.KeyRevision] = []byte(plan.StateInProgress), []byte(strconv.Itoa(j.Revision))
		delete(next, plan.KeyProbeStatuses)
	}
	f.status.Checksum, f.status.Attempt = v.checksum, 0
	if ours {
		if err := result(next, v, j); err != nil {
			return v.data, err
		}
		reportAttempt(&f.status, v, j)
	}
	if f.trouble != "" {
		f.status.Step, f.status.Message = "", plan.Head(f.trouble, plan.MaxMessageBytes)
	}
	if err := observed(next, f); err != nil {
		return v.data, err
	}
	if size(next) > maxSecretBytes {
		delete(next, plan.KeyPeriodicOutput)
		delete(next, plan.KeyFailedOutput)
		delete(next, plan.KeyAppliedOutput)
	}
	return next, nil
}

// maxSecretBytes is the size limit of a Secret, less room for its metadata.
const maxSecretBytes = 1<<20 - 16<<10

// result writes how the last attempt ended.
func result(next map[string][]byte, v view, j Journal) error {
	saved := j.Output
	if saved == nil {
		saved = map[string][]byte{}
	}
	output, err := plan.EncodeOutput(saved)
	if err != nil {
		return err
	}
	final := plan.StateSucceeded
	switch j.Phase {
	case Applying:
		return nil
	case Succeeded:
		next[plan.KeyAppliedChecksum], next[plan.KeyAppliedOutput] = []byte(j.Checksum), output
		for _, key := range []string{plan.KeyFailedChecksum, plan.KeyFailedOutput} {
			if len(next[key]) > 0 {
				next[key] = nil
			}
		}
	case Failed:
		next[plan.KeyFailedChecksum], next[plan.KeyFailedOutput] = []byte(j.Checksum), output
		final = plan.StateFailed
	}
	next[plan.KeyFailureCount], next[plan.KeySuccessCount] = []byte(strconv.Itoa(j.Failures)), []byte(strconv.Itoa(j.Successes))
	next[plan.KeyLastApplyTime] = []byte(j.Ended.UTC().Format(time.UnixDate))
	// The claim is written alone: no attempt ends before the Secret shows it.
	if v.state == plan.StateInProgress && (j.Phase == Succeeded || v.exhausted(j)) {
		next[plan.KeyState] = []byte(final)
	}
	return nil
}

// reportAttempt describes the result of the last attempt. The text stays the same until the next
// attempt ends.
func reportAttempt(status *plan.AgentStatus, v view, j Journal) {
	status.Attempt = j.Attempt
	if j.Failures == 0 || j.Phase == Succeeded {
		return
	}
	if j.Phase == Applying {
		status.Attempt--
	}
	status.Step, status.Message, status.Output = j.Step, j.Message, j.Tail
	if v.isOpen() && !v.exhausted(j) {
		status.RetryAt = retryAt(j).UTC().Format(time.RFC3339)
	}
}

// observed writes the results of probes and periodic instructions, and the agent's status.
func observed(next map[string][]byte, f findings) error {
	if f.probes != nil {
		raw, err := json.Marshal(f.probes)
		if err != nil {
			return fmt.Errorf("encoding probe statuses: %w", err)
		}
		next[plan.KeyProbeStatuses] = raw
	}
	if f.periodic != nil {
		raw, err := plan.EncodeOutput(f.periodic)
		if err != nil {
			return err
		}
		next[plan.KeyPeriodicOutput] = raw
	}
	raw, err := json.Marshal(f.status)
	if err != nil {
		return fmt.Errorf("encoding the agent's status: %w", err)
	}
	next[plan.KeyAgentStatus] = raw
	return nil
}

func size(data map[string][]byte) int {
	total := 0
	for key, value := range data {
		total += len(key) + len(value)
	}
	return total
}

// longAfter is the run time after which the agent reports an instruction. A hanging instruction
// must have a name, and most instructions end before.
const longAfter = 2 * time.Minute

// reportLong reports an instruction that runs for a long time, and removes the report when the
// instruction ends. Each is one write. The next report also removes it.
func (a *Agent) reportLong(ctx context.Context, checksum string) {
	a.mu.Lock()
	secret, running, since := cmp.Or(a.secret, &corev1.Secret{}), a.running, a.runningSince
	a.mu.Unlock()
	says := ""
	if running != "" && a.o.Clock.Since(since) >= longAfter {
		says = running + " since " + since.UTC().Format(time.RFC3339)
	}
	status, err := plan.DecodeAgentStatus(secret.Data[plan.KeyAgentStatus])
	if err != nil || status.Checksum != checksum || status.Running == says {
		return
	}
	status.Running = says
	data := maps.Clone(secret.Data)
	if data[plan.KeyAgentStatus], err = json.Marshal(status); err != nil {
		return
	}
	if _, err := a.update(ctx, secret, data); err != nil {
		a.o.Log.Error(err, "Telling what runs is tried again")
	}
}
