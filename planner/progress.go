package planner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// progress is how far a machine has come with the plan that was delivered to it.
type progress struct {
	delivered       *Delivered
	reason, message string
}

// Progress returns a machine's progress with its plan, as in a Verdict, for a machine without a
// verdict. Both results are empty without a plan.
func Progress(s *Secret) (reason, message string) {
	var p progress
	p.stand(s)
	return p.reason, p.message
}

// stand sets the progress with the plan. An agent may have written any content: unreadable content
// is reported and not trusted.
func (p *progress) stand(s *Secret) {
	if s == nil || s.Delivered == nil {
		return
	}
	p.delivered = s.Delivered
	if why := p.delivered.Broken; why != "" {
		p.reason, p.message = rkev1.PlanFailedReason, "its plan Secret holds no plan: "+why
		return
	}
	if p.reason, p.message = stage(s.Data, p.delivered.Checksum); p.reason == rkev1.UpToDateReason {
		p.reason, p.message = health(s.Data, p.delivered.Probes)
	}
	if p.reason == rkev1.WaitingForProbesReason && s.Overdue {
		p.reason = rkev1.ProbesFailingReason
		p.message = fmt.Sprintf("its plan is applied, but for more than %d minutes: %s", int(ProbesPatience.Minutes()), p.message)
	}
	if !s.SilentSince.IsZero() {
		p.reason, p.message = rkev1.AgentSilentReason, "its agent has not called the manager since "+s.SilentSince.UTC().Format(time.RFC3339)+
			". The state of its server is unknown, and its server gets no new plan"
	}
}

// unsaid stands for words that an agent owes.
const unsaid = "it reported no cause; drover logs --agent shows the output that it saved"

// stage is how far the agent has applied the plan.
func stage(data map[string][]byte, checksum string) (reason, message string) {
	switch plan.State(data[plan.KeyState]) {
	case plan.StatePending:
		return notTaken(data, checksum)
	case plan.StateInProgress:
		return applying(data, checksum)
	case plan.StateSucceeded:
		return rkev1.UpToDateReason, ""
	case plan.StateFailed, plan.StateCanceled:
		return rkev1.PlanFailedReason, "its agent gave up the plan: " + cmp.Or(failure(data, checksum), unsaid)
	case plan.StateNone:
	}
	// An agent of the old protocol, and states that we do not know.
	switch checksum {
	case string(data[plan.KeyAppliedChecksum]):
		return rkev1.UpToDateReason, ""
	case string(data[plan.KeyFailedChecksum]):
		return rkev1.PlanFailedReason, "its agent has not applied the plan: " + cmp.Or(failure(data, checksum), unsaid)
	}
	return notTaken(data, checksum)
}

// applying is how an agent fares that has taken up the plan, and the instruction that takes long,
// if one does.
func applying(data map[string][]byte, checksum string) (reason, message string) {
	reason, message = rkev1.ApplyingPlanReason, "its agent is applying the plan"
	if why := stuck(data, checksum); why != "" {
		reason, message = rkev1.AgentStuckReason, why
	} else if why := failure(data, checksum); why != "" {
		reason, message = rkev1.RetryingPlanReason, why
	}
	if is := said(data, checksum).Running; is != "" {
		message += ", at " + oneLine(is)
	}
	return reason, message
}

// notTaken distinguishes an agent that never connected, one that is late, and one that cannot
// accept the plan.
func notTaken(data map[string][]byte, checksum string) (reason, message string) {
	// A failure at a step is one of an earlier order of the same plan.
	if why := stuck(data, checksum); why != "" {
		return rkev1.AgentStuckReason, why
	}
	if len(data[plan.KeyAgentPublicKey]) == 0 {
		return rkev1.WaitingForAgentReason, "its agent has not called the manager yet. It calls after its server has started. If it never calls, " +
			"the server has not run its bootstrap data, cannot reach the manager, or does not trust the manager's certificate"
	}
	return rkev1.WaitingForAgentReason, "its agent has not started the plan"
}

// said returns the agent's status of the plan, or an empty status if the agent reports another
// plan.
func said(data map[string][]byte, checksum string) plan.AgentStatus {
	status, err := plan.DecodeAgentStatus(data[plan.KeyAgentStatus])
	if err != nil || status.Checksum != checksum {
		return plan.AgentStatus{}
	}
	return status
}

// failure returns the agent's error of the last attempt at the plan, or an empty string.
func failure(data map[string][]byte, checksum string) string {
	switch status := said(data, checksum); {
	case status.Step != "":
		failed := fmt.Sprintf("attempt %d failed at %s", max(status.Attempt, 1), oneLine(status.Step))
		if status.Message != "" {
			failed += ": " + oneLine(status.Message)
		}
		return failed
	case status.Message != "":
		return stuck(data, checksum)
	}
	// The count of an earlier plan stays until this one has ended.
	if count, err := strconv.Atoi(string(data[plan.KeyFailureCount])); err == nil && count > 0 && string(data[plan.KeyFailedChecksum]) == checksum {
		return fmt.Sprintf("failed attempts: %d", count)
	}
	return ""
}

// stuck returns why an agent cannot continue if no step of its plan is the cause, or an empty
// string.
func stuck(data map[string][]byte, checksum string) string {
	status := said(data, checksum)
	if status.Step != "" || status.Message == "" {
		return ""
	}
	return "its agent cannot continue: " + oneLine(status.Message)
}

// oneLine is a text of the agent's as a part of a condition's message.
func oneLine(text string) string { return plan.Head(strings.Join(strings.Fields(text), " "), 1000) }

// health returns which probes of an applied plan are unhealthy.
func health(data map[string][]byte, probes []string) (reason, message string) {
	statuses, err := plan.DecodeProbeStatuses(data[plan.KeyProbeStatuses])
	if err != nil {
		return rkev1.WaitingForProbesReason, "its health is unknown, because its agent's report of probes cannot be read"
	}
	status, _ := plan.DecodeAgentStatus(data[plan.KeyAgentStatus])
	var unhealthy []string
	for _, name := range probes {
		if statuses[name].Healthy {
			continue
		}
		if why := status.Probes[name]; why != "" {
			name += " (" + plan.Head(oneLine(why), 200) + ")"
		}
		unhealthy = append(unhealthy, name)
	}
	if len(unhealthy) > 0 {
		return rkev1.WaitingForProbesReason, "not healthy yet: " + strings.Join(unhealthy, ", ")
	}
	return rkev1.UpToDateReason, "its plan is applied and all probes are healthy"
}

// Delivered holds the planner's facts about a delivered plan. The plan itself, which may be a
// thousand times as large, need not be kept.
type Delivered struct {
	// Checksum identifies the plan for agents. Major is the checksum without its minor files.
	Checksum string `json:"checksum"`
	Major    string `json:"major"`
	// Paths of its files, without directories, including the files that it deletes.
	Paths  []string `json:"paths,omitempty"`
	Probes []string `json:"probes,omitempty"`
	// Fixed are the values of arguments that cannot change. They are nil if the plan has no
	// configuration of the distribution.
	Fixed map[string]string `json:"fixed"`
	// Token is the checksum of the token that the distribution is started with; empty if it is not
	// known.
	Token string `json:"token,omitempty"`
	// Broken is why it cannot be read; empty otherwise.
	Broken string `json:"broken,omitempty"`
}

// maxPathBytes bounds the paths of a plan's files, and maxProbeBytes the names of its probes.
const (
	maxPathBytes  = 32 << 10
	maxProbeBytes = 4 << 10
)

// maxPlanElements and maxPlanLevels bound a plan that is decoded. The largest plan that the planner
// writes has plan.MaxFiles files of at most 19 elements each, and a few hundred other elements.
const (
	maxPlanElements = 24 << 10
	maxPlanLevels   = 8
)

// maxFixed bounds the number of arguments that cannot change.
const maxFixed = 16

// MaxDeliveredBytes bounds a Delivered as JSON: each byte of a path, a name or a value may become
// six.
const MaxDeliveredBytes = 6*(maxPathBytes+maxProbeBytes+maxFixed*(maxFixedBytes+40)) + 3*plan.MaxFiles + 2<<10

// NewDelivered reads the plan of a plan Secret, or returns nil if it has none. A tenant may have
// written the plan: a plan beyond the bounds of the planner's own plans is not decoded.
func NewDelivered(raw []byte) *Delivered {
	if len(raw) == 0 {
		return nil
	}
	d, read := &Delivered{Checksum: plan.Checksum(raw)}, plan.Plan{}
	broken := func(why string) *Delivered { return &Delivered{Checksum: d.Checksum, Broken: why} }
	if len(raw) > maxPlanBytes {
		return broken(fmt.Sprintf("it has more than %d bytes", maxPlanBytes))
	}
	if _, err := measure(raw, maxPlanElements, maxPlanLevels); err != nil {
		return broken("it " + err.Error())
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return broken(plan.Head(err.Error(), 300))
	}
	if len(read.Instructions)+len(read.PeriodicInstructions) > plan.MaxInstructions {
		return broken("it has too many instructions")
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(read.Probes)) {
		if size += len(name); size > maxProbeBytes || len(d.Probes) >= plan.MaxProbes {
			return broken("it has too many probes")
		}
		d.Probes = append(d.Probes, name)
	}
	size = 0
	for _, file := range read.Files {
		if file.Directory {
			continue
		}
		if size += len(file.Path); size > maxPathBytes || len(d.Paths) >= plan.MaxFiles {
			return broken("it has too many files")
		}
		d.Paths = append(d.Paths, file.Path)
	}
	d.Major = major(read)
	d.Fixed, d.Token = fixedOf(read)
	return d
}

// major returns the checksum of a plan without its minor files: a plan that differs only in those
// needs no turn.
func major(p plan.Plan) string {
	p.Files = slices.DeleteFunc(slices.Clone(p.Files), func(f plan.File) bool { return f.Minor })
	raw, err := json.Marshal(p)
	if err != nil {
		return "" // texts and numbers are always encoded
	}
	return plan.Checksum(raw)
}
