package machine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/state"
)

// credential is what the driver is given of the credential Secret.
type credential struct {
	state.Credential
	// recalled tells that it is the one that was used last, and why: its Secret is gone or unusable.
	recalled string
}

// resolveCredential finds the cloud credential, checks that it may be used here, and that nothing is missing in it.
func (r *Reconciler) resolveCredential(ctx context.Context, s *scope) error {
	name := s.credentialName()
	if name == "" {
		if crdgen.NeedsCredential(r.kind.Fields, s.Spec()) {
			return step.Wait(rkev1.CredentialMissingReason, fmt.Sprintf("driver %s needs a credential: name its Secret in spec.common.cloudCredentialSecretName, with the keys %s",
				r.kind.Driver, r.requiredKeys(s)), 0)
		}
		s.conditions.True(rkev1.CredentialReadyCondition, rkev1.CredentialNotNeededReason, "")
		return nil
	}
	secret, err := r.credentialSecret(ctx, s, name)
	if err != nil {
		return err
	}
	fields := crdgen.GivenIn(r.kind.Fields, s.Spec())
	env, err := crdgen.CredentialEnv(r.kind.Driver, fields, secret.Data)
	if err != nil {
		return step.Wait(rkev1.CredentialInvalidReason, fmt.Sprintf("Secret %s: %v", name, err), s.credentialNet())
	}
	s.credential = credential{Credential: state.Credential{Name: name, Version: string(secret.UID) + "/" + secret.ResourceVersion,
		Env: env, Files: crdgen.CredentialFiles(r.kind.Driver, fields, secret.Data)}}
	return r.keepVersion(ctx, s)
}

// keepVersion gives a credential the version of the one that was used last if that is the same. Some tools touch Secrets all
// the time; an attempt for each touch would be a loop.
func (r *Reconciler) keepVersion(ctx context.Context, s *scope) error {
	if !s.state.Claimed {
		return nil
	}
	last, err := r.lastCredential(ctx, s)
	if err != nil || last.Version == "" {
		return err
	}
	if maps.Equal(last.Env, s.credential.Env) && maps.EqualFunc(last.Files, s.credential.Files, bytes.Equal) {
		s.credential.Version = last.Version
	}
	return nil
}

// credentialName is the spec's, or the one that made the server.
func (s *scope) credentialName() string {
	if name := s.CredentialName(); name != "" {
		return name
	}
	return s.status.CloudCredentialSecretName
}

func (r *Reconciler) requiredKeys(s *scope) string {
	var keys []string
	for _, field := range crdgen.GivenIn(r.kind.Fields, s.Spec()) {
		if field.Credential != "" && !field.Optional && field.Default == nil {
			keys = append(keys, field.Name)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// credentialHelp says where the credential comes from that the cloud did not accept: which Secret, which keys.
func (r *Reconciler) credentialHelp(s *scope) string {
	keys := r.requiredKeys(s)
	if keys == "" {
		keys = r.credentialKeys()
	}
	switch name := s.credentialName(); {
	case s.credential.recalled != "":
		return fmt.Sprintf("It was the credential that was used last: %s", s.credential.recalled)
	case name == "" && keys == "":
		return fmt.Sprintf("Driver %s takes its credential from the machine's spec: look at it there", r.kind.Driver)
	case name == "":
		return fmt.Sprintf("No Secret was given: look at the machine's spec, or name a Secret with the keys %s in its spec.common.cloudCredentialSecretName", keys)
	default:
		key := credentialKey(s.GetNamespace(), name)
		return fmt.Sprintf("The credential is that of Secret %s in namespace %s: look at its keys %s", key.Name, key.Namespace, keys)
	}
}

// credentialKeys are all that a credential of this driver may have.
func (r *Reconciler) credentialKeys() string {
	var keys []string
	for _, field := range r.kind.Fields {
		if field.Credential != "" {
			keys = append(keys, field.Name)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// credentialKey reads the name of a credential as machines give it: <name>, or <namespace>:<name>.
func credentialKey(namespace, name string) types.NamespacedName {
	if other, rest, ok := strings.Cut(name, ":"); ok {
		return types.NamespacedName{Namespace: other, Name: rest}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// credentialNet is when to look again at a credential that cannot be used: a manager of one namespace sees no change of another's.
func (s *scope) credentialNet() time.Duration {
	if credentialKey(s.GetNamespace(), s.credentialName()).Namespace != s.GetNamespace() {
		return safetyNet
	}
	return 0
}

func (r *Reconciler) credentialSecret(ctx context.Context, s *scope, name string) (*corev1.Secret, error) {
	key := credentialKey(s.GetNamespace(), name)
	r.watchIndex.note(s.request, secretKey(key))
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("reading the credential Secret %s: %w", name, err)
	}
	foreign := key.Namespace != s.GetNamespace()
	if foreign && (err != nil || !rkev1.SharedWith(secret, s.GetNamespace(), r.TrustedCredentialNamespaces)) {
		// One answer for both, so that nobody learns from it which Secrets another namespace has.
		return nil, step.Wait(rkev1.CredentialNotSharedReason, fmt.Sprintf("there is no Secret %s that may be used here: create it, and name this namespace, %s, in its annotation %s",
			name, s.GetNamespace(), rkev1.AllowedNamespacesAnnotation), s.credentialNet())
	}
	if apierrors.IsForbidden(err) {
		return nil, step.Wait(rkev1.CredentialInvalidReason, fmt.Sprintf("the credential Secret %s in namespace %s must not be read: let the manager's service account get it (keys %s)",
			key.Name, key.Namespace, r.requiredKeys(s)), safetyNet)
	}
	if err != nil {
		return nil, step.Wait(rkev1.CredentialMissingReason, fmt.Sprintf("the credential Secret %s is not there: create it in namespace %s with the keys %s",
			name, key.Namespace, r.requiredKeys(s)), 0)
	}
	if secret.Type != rkev1.CloudCredentialSecretType && secret.Type != corev1.SecretTypeOpaque && secret.Type != "" {
		return nil, step.Wait(rkev1.CredentialInvalidReason, fmt.Sprintf("Secret %s is of type %s: a credential is of type %s or %s",
			name, secret.Type, rkev1.CloudCredentialSecretType, corev1.SecretTypeOpaque), s.credentialNet())
	}
	return secret, nil
}

// maxDropped bounds what a condition tells of a forged credential.
const maxDropped = 512

// recallCredential finds the credential for a remove: the present one, or, when that is gone or unusable, the one that was
// used last, for a machine must never wait for a Secret that nobody will bring back. Without either the remove is tried all
// the same when the driver's record is there: some drivers keep in it what they need.
func (r *Reconciler) recallCredential(ctx context.Context, s *scope) error {
	missing := r.resolveCredential(ctx, s)
	if missing == nil || !isWaiting(missing) {
		return missing
	}
	last, err := r.lastCredential(ctx, s)
	if err != nil {
		return err
	}
	if last.Name != "" {
		message := stepMessage(missing) + "; the server is removed with the credential that was used last"
		if dropped := crdgen.KeepOwn(r.kind.Driver, r.kind.Fields, last.Env, last.Files); len(dropped) > 0 {
			message += fmt.Sprintf(", in which %s are none of the driver's and are left out", state.Printable(strings.Join(dropped, ", "), maxDropped))
		}
		s.credential = credential{Credential: last, recalled: stepMessage(missing)}
		s.conditions.Set(rkev1.CredentialReadyCondition, metav1.ConditionTrue, rkev1.CredentialRecalledReason, message)
		return nil
	}
	if len(s.state.ExtractedConfig) > 0 {
		return nil
	}
	return missing
}
