package inventory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

// StateSecret gets the state Secret of a machine, secrets included; nil when there is none.
func (a *API) StateSecret(ctx context.Context, namespace, machine string) (*corev1.Secret, error) {
	secret, err := a.Kube.CoreV1().Secrets(namespace).Get(ctx, jobrunner.StateSecretName(machine), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting the state Secret of %s/%s: %w", namespace, machine, err)
	}
	return secret, nil
}

// State reads what the state Secret of a machine tells; an empty State when there is none.
func (a *API) State(ctx context.Context, namespace, machine string) (*facts.State, error) {
	secret, err := a.StateSecret(ctx, namespace, machine)
	if err != nil || secret == nil {
		return &facts.State{}, err
	}
	return facts.ParseState(secret.Name, secret.Data), nil
}

func byName(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}
