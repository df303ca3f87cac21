package machine

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// A state Secret can be lost: by a restore without Secrets, or by somebody who emptied it or took its finalizer away. What it
// says then, nothing, must not be taken for "no server".

// lostCheck is how often it is looked whether a lost state was brought back: a Secret without its owner wakes nobody.
const lostCheck = time.Minute

// hadServer tells that the machine had a server of which its state knows nothing any more.
func (s *scope) hadServer() bool {
	if !s.state.NothingMade() {
		return false
	}
	last := s.status.LastAttempt
	provisioned := s.status.Initialization.Provisioned
	return provisioned != nil && *provisioned ||
		last != nil && last.Operation == string(state.Create) && last.Outcome == string(state.Succeeded) ||
		// Cluster API takes the provider ID over when there is a server; on our machine the user may have set it before.
		s.machine != nil && s.machine.Spec.ProviderID != ""
}

// mayHaveServer tells that besides an earlier attempt may have asked for a server, and its state is lost.
func (s *scope) mayHaveServer() bool {
	if !s.state.NothingMade() {
		return false
	}
	return s.hadServer() || s.state.Lost || s.state.secret == nil && (s.status.Attempts > 0 || s.deleting() && s.ProviderID() != "") ||
		s.restoredWithoutState()
}

// restoredWithoutState reports whether a machine that is being deleted came from a backup, and its state did not, or not yet: it has
// our finalizer, and this manager never came to put that on. A status of before the machine was made came from the backup too.
func (s *scope) restoredWithoutState() bool {
	if !s.deleting() || s.state.secret != nil || s.state.takenBy != "" || !controllerutil.ContainsFinalizer(s, rkev1.MachineFinalizer) {
		return false
	}
	after := s.conditions.Get(rkev1.DriverReadyCondition) // the first step after the finalizer
	return after == nil || after.LastTransitionTime.Time.Before(s.GetCreationTimestamp().Time)
}

// awaitState waits for a lost state: without it a healthy server would be made a second time, or be replaced.
func (s *scope) awaitState() error {
	if !s.hadServer() {
		return nil
	}
	return step.Wait(rkev1.StateMissingReason, fmt.Sprintf("the machine has a server, but the state Secret %s, with its SSH key, is missing or empty: "+
		"restore it from a backup, or delete the machine: its server is then looked for and removed, and whoever made the machine, such as a MachineSet, makes another; until then it is left as it is",
		jobrunner.StateSecretName(s.GetName())), lostCheck)
}
