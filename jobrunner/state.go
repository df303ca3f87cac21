package jobrunner

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// StateSecret is the machine's state Secret as the manager writes it, with its owner and the
// present attempt. The pod owns its data, so that applying this changes none of it. The finalizer
// keeps it when the machine's children are deleted before their server is.
func StateSecret(t Task) (*corev1.Secret, error) {
	request := t.Request
	annotations, err := state.Notes{
		Claim:  state.Claim{Operation: request.Operation, Attempt: request.Attempt, Try: t.Try, Made: t.Made, Hash: t.Hash},
		Driver: request.Driver, InstanceName: request.InstanceName, TaggedUID: request.Tags[TagMachineUID], PodAccount: t.accessName(), Lost: request.MayExist,
	}.Annotations()
	if err != nil {
		return nil, err
	}
	meta := t.meta(request.StateSecret, t.ownLabels())
	meta.Finalizers, meta.Annotations = []string{rkev1.MachineFinalizer}, annotations
	return secret(meta, rkev1.MachineStateSecretType, nil), nil
}

// CredentialSecret keeps the task's credential for a removal after the user's Secret is gone. It
// lives as long as the state but is separate from it: the right to log in to a server gives no
// right to the account that pays for it.
func CredentialSecret(t Task) (*corev1.Secret, error) {
	credential, err := json.Marshal(t.Credential)
	if err != nil {
		return nil, fmt.Errorf("encoding the credential: %w", err)
	}
	meta := t.meta(CredentialSecretName(t.base()), t.ownLabels())
	if t.Owner != nil {
		meta.Finalizers = []string{rkev1.MachineFinalizer}
	}
	return secret(meta, rkev1.MachineCredentialSecretType, map[string][]byte{state.CredentialKey: credential}), nil
}

// ResultSecret is the Secret for a probe's result.
func ResultSecret(t Task) *corev1.Secret {
	return secret(t.meta(t.Request.StateSecret, t.jobLabels()), rkev1.MachineStateSecretType, nil)
}
