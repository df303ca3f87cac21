package jobrunner

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// StateSecret is the machine's state Secret as the manager writes it: who owns it, which attempt is under way and with which
// credential. All other data are the pod's alone, so that applying this changes none of them. The finalizer keeps it when the
// machine's children are deleted before their server is.
func StateSecret(t Task) (*corev1.Secret, error) {
	request := t.Request
	annotations, err := state.Notes{
		Claim:  state.Claim{Operation: request.Operation, Attempt: request.Attempt, Try: t.Try, Hash: t.Hash},
		Driver: request.Driver, InstanceName: request.InstanceName, TaggedUID: request.Tags[TagMachineUID], PodAccount: t.accessName(), Lost: request.MayExist,
	}.Annotations()
	if err != nil {
		return nil, err
	}
	meta := t.meta(request.StateSecret, t.ownLabels())
	meta.Finalizers, meta.Annotations = []string{rkev1.MachineFinalizer}, annotations
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       rkev1.MachineStateSecretType,
	}
	if t.Credential.Name == "" {
		return secret, nil
	}
	credential, err := json.Marshal(t.Credential)
	if err != nil {
		return nil, fmt.Errorf("encoding the credential: %w", err)
	}
	secret.Data = map[string][]byte{state.CredentialKey: credential}
	return secret, nil
}

// ResultSecret is where a probe leaves its result.
func ResultSecret(t Task) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: t.meta(t.Request.StateSecret, t.jobLabels()),
		Type:       rkev1.MachineStateSecretType,
	}
}
