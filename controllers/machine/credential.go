package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// resolveCredential finds the cloud credential, and checks that it may be used here and is
// complete.
func (r *Reconciler) resolveCredential(ctx context.Context, s *scope) error {
	name := s.CredentialName()
	if name == "" {
		if keys := credential.RequiredKeys(r.kind.Fields, s.Spec()); len(keys) > 0 {
			return step.Wait(rkev1.CredentialMissingReason, fmt.Sprintf("driver %s needs a credential: name its Secret in spec.common.cloudCredentialSecretName, with the keys %s",
				r.kind.Driver, strings.Join(keys, ", ")), 0)
		}
		s.conditions.True(rkev1.CredentialReadyCondition, rkev1.CredentialNotNeededReason, "")
		return nil
	}
	ref := credential.Parse(s.GetNamespace(), name)
	r.watchIndex.note(s.request, watchKey{kind: "Secret", name: ref.NamespacedName})
	found, err := r.credentials.Resolve(ctx, s.GetNamespace(), name, r.kind.Driver, r.kind.Fields, s.Spec())
	if refused, ok := errors.AsType[*credential.Refused](err); ok {
		var again time.Duration
		if ref.IsForeign() || errors.Is(err, credential.ErrForbidden) {
			again = safetyNet // a manager of one namespace does not watch other namespaces
		}
		return step.Wait(refused.Reason, refused.Message, again)
	}
	if err != nil {
		return err
	}
	s.credential = found
	if !s.state.Claimed {
		return nil
	}
	// An unchanged credential keeps its version: some tools update Secrets often, and each update
	// would cause an attempt.
	last, err := r.lastCredential(ctx, s)
	if last.Version != "" && maps.Equal(last.Env, s.credential.Env) && maps.EqualFunc(last.Files, s.credential.Files, bytes.Equal) {
		s.credential.Version = last.Version
	}
	return err
}

// credentialHelp names the Secret and the keys of the credential that the cloud rejected.
func (r *Reconciler) credentialHelp(s *scope) string {
	required := credential.RequiredKeys(r.kind.Fields, s.Spec())
	if len(required) == 0 { // then all that the Secret may have
		for _, field := range r.kind.Fields {
			if field.Credential != "" {
				required = append(required, field.Name)
			}
		}
		slices.Sort(required)
	}
	keys := strings.Join(required, ", ")
	name := s.CredentialName()
	switch {
	case s.recalled != "":
		return fmt.Sprintf("The Job used the credential of the last attempt: %s", s.recalled)
	case name == "" && keys == "":
		return fmt.Sprintf("Driver %s takes its credential from the machine's spec: check it there", r.kind.Driver)
	case name == "":
		return fmt.Sprintf("No Secret was given: check the machine's spec, or name a Secret with the keys %s in its spec.common.cloudCredentialSecretName", keys)
	}
	key := credential.Parse(s.GetNamespace(), name)
	if keys == "" {
		return fmt.Sprintf("The credential comes from Secret %s in namespace %s. No option of driver %s is a credential: check the annotation %s of its NodeDriver",
			key.Name, key.Namespace, r.kind.Driver, v3.PrivateCredentialFieldsAnnotation)
	}
	return fmt.Sprintf("The credential comes from Secret %s in namespace %s: check its keys %s", key.Name, key.Namespace, keys)
}

// maxDropped bounds the text about a forged credential in a condition.
const maxDropped = 512

// recallCredential finds the credential for a remove: the present one or, if it is gone or
// unusable, the one that was used last. A machine must never wait for a Secret that does not come
// back. Without either, the remove runs if the driver's record exists, because some drivers keep
// their credential in it.
func (r *Reconciler) recallCredential(ctx context.Context, s *scope) error {
	missing := r.resolveCredential(ctx, s)
	reason, text := ending(missing)
	if reason == "" {
		return missing
	}
	last, err := r.lastCredential(ctx, s)
	if err != nil {
		return err
	}
	if last.Name != "" {
		message := text + "; the server is removed with the credential of the last attempt"
		if dropped := credential.KeepOwn(r.kind.Driver, r.kind.Fields, last.Env, last.Files); len(dropped) > 0 {
			message += fmt.Sprintf("; its keys %s are not fields of the driver and are ignored", state.Printable(strings.Join(dropped, ", "), maxDropped))
		}
		s.credential, s.recalled = last, text
		s.conditions.Set(rkev1.CredentialReadyCondition, metav1.ConditionTrue, rkev1.CredentialRecalledReason, message)
		return nil
	}
	if len(s.state.ExtractedConfig) > 0 {
		return nil
	}
	if s.namespaceGoing, err = r.isTerminating(ctx, s.GetNamespace()); err != nil {
		return err
	}
	return missing
}

// The manager keeps the credential of the last Job in a separate Secret, for a removal after the
// user's Secret is gone. Only the manager reads it. The pods of Jobs and the users who log in to
// servers can read the state Secret, so that Secret holds no cloud credential.

// lastCredential returns the credential of the last Job; its name is empty without a readable one.
func (r *Reconciler) lastCredential(ctx context.Context, s *scope) (state.Credential, error) {
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: s.home.Namespace, Name: jobrunner.CredentialSecretName(s.home.Name)}
	err := r.Live.Get(ctx, key, secret)
	if client.IgnoreNotFound(err) != nil {
		return state.Credential{}, fmt.Errorf("reading the Secret %s: %w", key.Name, err)
	}
	if err == nil && secret.Type == rkev1.MachineCredentialSecretType && (s.owns(secret) || s.succeeds(secret)) {
		if last, err := state.ReadCredential(secret.Data); err == nil {
			return last, nil
		}
	}
	return s.state.Credential.Value, nil
}

// moveCredential copies the credential out of a state that an earlier manager wrote, if it has one.
func (r *Reconciler) moveCredential(ctx context.Context, s *scope) error {
	old, ok := s.state.secret.Data[state.CredentialKey]
	if !ok {
		return nil
	}
	moved, err := jobrunner.CredentialSecret(jobrunner.Task{Owner: s.Reference(), Credential: s.state.Credential.Value,
		Request: jobrunner.Request{Machine: s.ref(), Namespace: s.home.Namespace, Driver: state.DriverRef{Name: r.kind.Driver}}})
	if err != nil {
		return err
	}
	if !s.state.Credential.IsRead() {
		return nil // the credential cannot be used
	}
	moved.Data[state.CredentialKey] = bytes.Clone(old)
	err = r.Client.Create(ctx, moved, client.FieldOwner(FieldOwner))
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("moving the credential out of the state Secret: %w", err)
	}
	return nil
}
