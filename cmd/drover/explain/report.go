package explain

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// Kind heads the documents of `drover why -o json`; listing.APIVersion is their version.
const Kind = "Explanation"

// Report is the output of `drover why`. Fields are only ever added.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Subject is the object, as kind namespace/name.
	Subject string `json:"subject"`
	Phase   string `json:"phase"`
	// Facts are the few things to know about the subject.
	Facts []Fact `json:"facts,omitempty"`
	// Verdict is one or two sentences: why it waits or why it failed.
	Verdict []string `json:"verdict"`
	// Blocker is the reason why the subject is not ready; nil if the subject is ready.
	Blocker *Blocker `json:"blocker,omitempty"`
	// Steps in their order.
	Steps   []Step    `json:"steps,omitempty"`
	Related []Related `json:"related,omitempty"`
	Events  []Event   `json:"events,omitempty"`
	Log     *Log      `json:"log,omitempty"`
	// Next lists the next steps, best first.
	Next []string `json:"next"`
	// Docs are the addresses of the reasons in docs/troubleshooting.md, the blocker's first.
	Docs []string `json:"docs,omitempty"`
	// Problems lists the parts that could not be read.
	Problems []string `json:"problems,omitempty"`

	now time.Time
	// told are the reasons of the conditions that the verdict repeats.
	told []string
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

	// next lists the next steps for the condition.
	next []string
}

func (s *Step) blocker() *Blocker {
	return &Blocker{Step: s.Name, Reason: s.Reason, Message: s.Message}
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

// createSteps and removeSteps are a machine's conditions in the order in which the manager works
// them off.
var (
	createSteps = []string{
		rkev1.ClusterReadyCondition, rkev1.DriverReadyCondition, rkev1.BootstrapReadyCondition, rkev1.CredentialReadyCondition,
		rkev1.CreateJobCondition, rkev1.StateStoredCondition, rkev1.ProviderIDKnownCondition,
	}
	// observedSteps are observed after the server started. They are shown if present, and block
	// nothing while unknown.
	observedSteps = []string{rkev1.BootstrapDeliveredCondition, rkev1.ServerExistsCondition}
	// planSteps are conditions of the CAPI Machine about its agent's work on the server. Only
	// machines of an RKEControlPlane have them.
	planSteps = []string{rkev1.PlanAppliedCondition, rkev1.ReconciledCondition}
	// clusterSteps are conditions of an RKEControlPlane.
	clusterSteps = []string{rkev1.ReconciledCondition, rkev1.AvailableCondition}
	// A removal has one condition, which also reports a missing driver or credential.
	removeSteps = []string{rkev1.DeleteJobCondition}
	driverSteps = []string{
		v3.ValidCondition, v3.DownloadedCondition, v3.InstalledCondition, v3.SchemaCompatibleCondition, v3.ActiveCondition,
	}
)

// nodeStep is Cluster API's own condition of the CAPI Machine, which means something once there is
// a Node.
const nodeStep = clusterv1.MachineNodeHealthyCondition

// timeline turns conditions into steps: the given ones in their order, then Ready.
func timeline(conditions []metav1.Condition, order []string) []Step {
	var steps []Step
	for _, name := range append(slices.Clone(order), rkev1.ReadyCondition) {
		steps = append(steps, newStep(name, meta.FindStatusCondition(conditions, name)))
	}
	ready := &steps[len(steps)-1]
	if ready.State == StepFailed && slices.ContainsFunc(steps, func(s Step) bool { return s.State == StepWaiting && s.Reason == ready.Reason }) {
		ready.State = StepWaiting // Ready is False if it repeats a step that is still unknown
	}
	return steps
}

func newStep(name string, c *metav1.Condition) Step {
	if c == nil {
		return Step{Name: name, State: StepPending}
	}
	what, next := advice.Split(c.Message)
	step := Step{Name: facts.Clean(name), State: StepFailed, Reason: facts.Clean(c.Reason), Message: facts.Clean(what), next: next}
	if !c.LastTransitionTime.IsZero() {
		since := c.LastTransitionTime.UTC()
		step.Since = &since
	}
	switch {
	case c.Status == metav1.ConditionTrue:
		step.State = StepDone
	case c.Status == metav1.ConditionUnknown, advice.Waits(c.Reason):
		step.State = StepWaiting
	}
	return step
}

// capiStep is one of Cluster API's conditions. Its message lists the state and gives no advice.
func capiStep(name string, c *metav1.Condition) Step {
	if c != nil {
		c = c.DeepCopy()
		c.Message = sentence(c.Message)
	}
	return newStep(name, c)
}

// sentence makes one line of a list, which may have lists in it, as conditions have that sum others
// up.
func sentence(list string) string {
	text := ""
	for line := range strings.SplitSeq(list, "\n") {
		item, isItem := strings.CutPrefix(strings.TrimSpace(line), "* ")
		switch {
		case text == "" || item == "":
			text += item
		case isItem && !strings.HasSuffix(text, ":"):
			text += "; " + item
		default:
			text += " " + item
		}
	}
	return text
}

// openStep is the step of a name, if it is there and not done; nil otherwise.
func openStep(steps []Step, name string) *Step {
	at := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name && s.State != StepDone })
	if at < 0 {
		return nil
	}
	return &steps[at]
}

// firstReached is the first step that was reached and is not done, else the first that is not done;
// nil when all are.
func firstReached(steps []Step) *Step {
	var open *Step
	for i := range steps {
		switch state := steps[i].State; {
		case state == StepWaiting || state == StepFailed:
			return &steps[i]
		case state == StepPending && open == nil:
			open = &steps[i]
		}
	}
	return open
}
