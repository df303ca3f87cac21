package nodedriver

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
)

// scope is what the steps hand on to each other in one reconcile.
type scope struct {
	nd, before *v3.NodeDriver
	conditions *step.Conditions
	// rules are what the annotations say; set by validate.
	rules crdgen.Rules
	// verdict is how the probe ended, zero for built-in drivers; set by download.
	verdict jobrunner.Verdict
	// next says when another probe is due after the verdict; set by download.
	next error
	// flags are the driver's; set by install.
	flags []crdgen.Flag
	// fields and crds are what they become; set by schema.
	fields []crdgen.Field
	crds   []*apiextensionsv1.CustomResourceDefinition
	// summed tells that a step has set Ready itself.
	summed bool
}

// Conditions implements step.Scope.
func (s *scope) Conditions() *step.Conditions { return s.conditions }

func (r *Reconciler) newScope(nd *v3.NodeDriver) *scope {
	return &scope{
		nd: nd, before: nd.DeepCopy(),
		conditions: step.NewConditions(&nd.Status.Conditions, nd.Generation, r.opts.Now()),
	}
}

// ready sets the summary to something else than what the conditions add up to.
func (s *scope) notReady(reason, message string) {
	s.summed = true
	s.conditions.False(v3.ReadyCondition, reason, message)
}
