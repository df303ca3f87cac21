package explain

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// Machine explains what a snapshot of a machine, or of a name without one, tells. Command is how the CLI is called,
// "drover" or "kubectl drover".
func Machine(s *facts.Snapshot, command string) *Report {
	r := &Report{APIVersion: listing.APIVersion, Kind: Kind, Problems: cleanAll(s.Problems), now: s.Now}
	if s.Machine == nil {
		explainAbsent(r, s, command)
	} else {
		explainMachine(r, s, command)
	}
	r.Related = related(s)
	r.Events = newEvents(s.Events)
	r.finish()
	return r
}

// finish makes all texts safe to show, and what to do next a list for programs also when it is empty.
func (r *Report) finish() {
	r.Subject, r.Verdict, r.Next = clean(r.Subject), cleanAll(r.Verdict), cleanAll(r.Next)
	if r.Next == nil {
		r.Next = []string{}
	}
}

func explainMachine(r *Report, s *facts.Snapshot, command string) {
	m := s.Machine
	r.Subject = fmt.Sprintf("%s %s/%s", m.Kind.Name, m.Namespace, m.Name)
	r.Phase = clean(m.Phase())
	r.Facts = machineFacts(s)
	order := slices.Clone(createSteps)
	for _, name := range observedSteps {
		if m.Condition(name) != nil {
			order = append(order, name)
		}
	}
	if m.DeletionTimestamp != nil {
		order = removeSteps
	}
	r.Steps = timeline(m.Status.Conditions, order, machineAdvice)
	r.Log = machineLog(s)
	d := &decision{Report: r, Snapshot: s, words: machineWords(s, command)}
	d.decide()
}

func machineFacts(s *facts.Snapshot) []Fact {
	m := s.Machine
	all := []Fact{
		{"driver", driverName(s)},
		{"cluster", m.ClusterName()},
		{"address", m.Address()},
		{"providerID", m.Spec.ProviderID},
		{"server", m.Status.InstanceName},
		{"age", age(s.Now, m.CreationTimestamp.Time)},
	}
	return knownFacts(all)
}

// knownFacts leaves out the empty ones. Values come from drivers and clouds.
func knownFacts(all []Fact) []Fact {
	var known []Fact
	for _, fact := range all {
		if value := clean(fact.Value); value != "" {
			known = append(known, Fact{fact.Name, value})
		}
	}
	return known
}

func driverName(s *facts.Snapshot) string {
	if s.Driver != nil {
		return s.Driver.DriverName()
	}
	return facts.DriverName(s.Machine.Kind.Name, nil)
}
