package explain

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// createSteps and removeSteps are a machine's conditions in the order in which the manager works them off.
var (
	createSteps = []string{
		rkev1.ClusterReadyCondition, rkev1.DriverReadyCondition, rkev1.BootstrapReadyCondition, rkev1.CredentialReadyCondition,
		rkev1.CreateJobCondition, rkev1.StateStoredCondition, rkev1.ProviderIDKnownCondition,
	}
	// observedSteps are what was looked at after the server ran. They are shown when they are there, and hold nothing up while they are not known.
	observedSteps = []string{rkev1.BootstrapDeliveredCondition, rkev1.ServerExistsCondition}
	// A removal has one condition, which tells also when its driver or credential is missing.
	removeSteps = []string{rkev1.DeleteJobCondition}
	driverSteps = []string{
		v3.ValidCondition, v3.DownloadedCondition, v3.InstalledCondition, v3.SchemaCompatibleCondition, v3.ActiveCondition,
	}
)

// timeline turns conditions into steps: the given ones in their order, then Ready.
func timeline(conditions []metav1.Condition, order []string, table map[string]advice) []Step {
	var steps []Step
	for _, name := range append(append([]string{}, order...), rkev1.ReadyCondition) {
		steps = append(steps, newStep(name, facts.FindCondition(conditions, name), table))
	}
	return steps
}

func newStep(name string, c *metav1.Condition, table map[string]advice) Step {
	if c == nil {
		return Step{Name: name, State: StepPending}
	}
	step := Step{Name: clean(name), State: StepFailed, Reason: clean(c.Reason), Message: clean(c.Message)}
	if !c.LastTransitionTime.IsZero() {
		since := c.LastTransitionTime.UTC()
		step.Since = &since
	}
	switch {
	case c.Status == metav1.ConditionTrue:
		step.State = StepDone
	case c.Status == metav1.ConditionUnknown, waits(c.Reason, table):
		step.State = StepWaiting
	}
	return step
}

// waits reports whether a reason goes away by itself: what the table says of it, else what is said of a Job with it.
func waits(reason string, table map[string]advice) bool {
	if about, known := table[reason]; known {
		return about.waits
	}
	return failureAdvice(reason).waits
}

// firstOpen is the first step of the order that is not done; nil when all are.
func firstOpen(steps []Step) *Step {
	for i := range steps {
		if steps[i].State != StepDone {
			return &steps[i]
		}
	}
	return nil
}

// firstReached is the first step that was reached and is not done, else the first that is not done.
func firstReached(steps []Step) *Step {
	for i := range steps {
		if steps[i].State == StepWaiting || steps[i].State == StepFailed {
			return &steps[i]
		}
	}
	return firstOpen(steps)
}
