package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/state"
)

// resolveCredential finds the cloud credential, checks that it may be used here, and that nothing is missing in it.
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
	r.watchIndex.note(s.request, secretKey(ref.NamespacedName))
	found, err := r.credentials.Resolve(ctx, s.GetNamespace(), name, r.kind.Driver, r.kind.Fields, s.Spec())
	if refused, ok := errors.AsType[*credential.Refused](err); ok {
		var again time.Duration
		if ref.IsForeign() || errors.Is(err, credential.ErrForbidden) {
			again = safetyNet // a manager of one namespace sees no change of another's
		}
		return step.Wait(refused.Reason, refused.Message, again)
	}
	if err != nil {
		return err
	}
	s.credential = found
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

// credentialHelp says where the credential comes from that the cloud did not accept: which Secret, which keys.
func (r *Reconciler) credentialHelp(s *scope) string {
	required := credential.RequiredKeys(r.kind.Fields, s.Spec())
	if len(required) == 0 {
		required = credential.Keys(r.kind.Fields)
	}
	keys := strings.Join(required, ", ")
	switch name := s.CredentialName(); {
	case s.recalled != "":
		return fmt.Sprintf("It was the credential that was used last: %s", s.recalled)
	case name == "" && keys == "":
		return fmt.Sprintf("Driver %s takes its credential from the machine's spec: look at it there", r.kind.Driver)
	case name == "":
		return fmt.Sprintf("No Secret was given: look at the machine's spec, or name a Secret with the keys %s in its spec.common.cloudCredentialSecretName", keys)
	default:
		key := credential.Parse(s.GetNamespace(), name)
		return fmt.Sprintf("The credential is that of Secret %s in namespace %s: look at its keys %s", key.Name, key.Namespace, keys)
	}
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
		if dropped := credential.KeepOwn(r.kind.Driver, r.kind.Fields, last.Env, last.Files); len(dropped) > 0 {
			message += fmt.Sprintf(", in which %s are none of the driver's and are left out", state.Printable(strings.Join(dropped, ", "), maxDropped))
		}
		s.credential, s.recalled = last, stepMessage(missing)
		s.conditions.Set(rkev1.CredentialReadyCondition, metav1.ConditionTrue, rkev1.CredentialRecalledReason, message)
		return nil
	}
	if len(s.state.ExtractedConfig) > 0 {
		return nil
	}
	return missing
}
