package inventory

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

// StateSecret gets the state Secret of a machine, secrets included; nil if it does not exist. Two
// machines of different kinds may have one name, and so one name of their state: StateSecret
// returns an error if the Secret belongs to the other machine.
func (a *API) StateSecret(ctx context.Context, m *facts.Machine) (*corev1.Secret, error) {
	secret, err := a.secret(ctx, m.Namespace, jobrunner.StateSecretName(m.Name))
	if err != nil || secret == nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(secret); owner != nil && owner.UID != m.UID {
		whose := owner.Kind + " " + owner.Name
		if owner.Kind == m.Kind.Name && owner.Name == m.Name {
			whose = fmt.Sprintf("an earlier %s of this name, UID %s", owner.Kind, owner.UID)
		}
		return nil, fmt.Errorf("the Secret %s is not this machine's: it belongs to %s", secret.Name, whose)
	}
	return secret, nil
}

// secret gets a Secret; nil when it does not exist.
func (a *API) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := a.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting Secret %s/%s: %w", namespace, name, err)
	}
	return secret, nil
}

// State reads the state Secret of a machine; it returns an empty State if the Secret does not exist.
func (a *API) State(ctx context.Context, m *facts.Machine) (*facts.State, error) {
	secret, err := a.StateSecret(ctx, m)
	return stateIn(secret), err
}

func stateIn(secret *corev1.Secret) *facts.State {
	if secret == nil {
		return &facts.State{}
	}
	known := facts.ParseState(secret.Name, secret.Data)
	known.Deleting = !secret.DeletionTimestamp.IsZero()
	return known
}

// orphanedState is State for a machine that does not exist. Kind may be empty; the state of a
// machine of another kind is not meant.
func (a *API) orphanedState(ctx context.Context, namespace, machine, kind string) (*facts.State, error) {
	secret, err := a.secret(ctx, namespace, jobrunner.StateSecretName(machine))
	if err != nil || secret == nil {
		return &facts.State{}, err
	}
	if owner := metav1.GetControllerOf(secret); owner != nil && kind != "" && owner.Kind != kind {
		return &facts.State{}, nil
	}
	return stateIn(secret), nil
}

// failure is the agent's output when it failed at its plan; nil if the Machine reports no such
// failure.
func (a *API) failure(ctx context.Context, m *clusterv1.Machine) (*facts.Failure, error) {
	c := meta.FindStatusCondition(m.Status.Conditions, rkev1.PlanAppliedCondition)
	if c == nil || c.Reason != rkev1.RetryingPlanReason && c.Reason != rkev1.PlanFailedReason {
		return nil, nil
	}
	secret, err := a.PlanSecret(ctx, m)
	if err != nil {
		return nil, err
	}
	step, output, err := plan.FailedStep(secret.Data)
	if err != nil || output == "" {
		return nil, err
	}
	return &facts.Failure{Machine: m.Name, Step: step, Output: output}, nil
}

// errNoPlanSecret is of a machine whose plan Secret is not made yet, or gone.
var errNoPlanSecret = errors.New("no plan Secret")

// PlanSecret gets a CAPI Machine's plan Secret: the plan, with all its secrets, and the agent's
// reports. The error says why it does not exist.
func (a *API) PlanSecret(ctx context.Context, m *clusterv1.Machine) (*corev1.Secret, error) {
	ref := m.Spec.Bootstrap.ConfigRef
	if ref.Kind != "RKEBootstrap" || ref.APIGroup != rkev1.GroupVersion.Group {
		return nil, fmt.Errorf("machine %s is not bootstrapped by an RKEBootstrap, and so has no agent", m.Name)
	}
	secret, err := a.secret(ctx, m.Namespace, plan.SecretName(ref.Name))
	if err != nil || secret != nil {
		return secret, err
	}
	if m.DeletionTimestamp != nil {
		return nil, fmt.Errorf("machine %s, which is being deleted, has %w any more: its agent neither reports nor gets a plan (see condition DeleteJob of its infra machine for the progress)", m.Name, errNoPlanSecret)
	}
	return nil, fmt.Errorf("machine %s has %w yet: its RKEBootstrap %s makes it (see 'kubectl -n %s describe rkebootstraps.rke.cattle.io %s')", m.Name, errNoPlanSecret, ref.Name, m.Namespace, ref.Name)
}
