package explain

import "time"

// Kind heads the documents of `drover why -o json`; listing.APIVersion is their version.
const Kind = "Explanation"

// Report is what `drover why` tells. Fields are only ever added.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Subject is the object, as kind namespace/name.
	Subject string `json:"subject"`
	Phase   string `json:"phase"`
	// Facts are the few things to know about the subject.
	Facts []Fact `json:"facts,omitempty"`
	// Verdict is one or two sentences: what it waits for, or why it failed.
	Verdict []string `json:"verdict"`
	// Blocker is what keeps the subject from being ready; nil when nothing does.
	Blocker *Blocker `json:"blocker,omitempty"`
	// Steps in their order.
	Steps   []Step    `json:"steps,omitempty"`
	Related []Related `json:"related,omitempty"`
	Events  []Event   `json:"events,omitempty"`
	Log     *Log      `json:"log,omitempty"`
	// Next is what to do next, best first.
	Next []string `json:"next"`
	// Problems are what could not be read.
	Problems []string `json:"problems,omitempty"`

	now time.Time
}

// Fact is a name and a value.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Blocker is the step that does not go on, and why.
type Blocker struct {
	Step    string `json:"step,omitempty"`
	Reason  string `json:"reason"`
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
}

// StepState is how far a step is.
type StepState string

// States of a step.
const (
	StepDone    StepState = "ok"
	StepWaiting StepState = "wait"
	StepFailed  StepState = "fail"
	StepPending StepState = "-"
)

// Step is one condition as a line of the timeline.
type Step struct {
	Name    string     `json:"name"`
	State   StepState  `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// Related is another object that matters here.
type Related struct {
	Role  string `json:"role"`
	Name  string `json:"name"`
	State string `json:"state"`
}

// Event is one event of the subject or a related object.
type Event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Object  string    `json:"object"`
	Message string    `json:"message"`
	Count   int32     `json:"count,omitempty"`
}

// Log is the end of the last log.
type Log struct {
	Source string   `json:"source"`
	Lines  []string `json:"lines"`
}
