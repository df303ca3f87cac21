package credential

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/state"
)

// Why a Secret cannot be used, for errors.Is.
var (
	// ErrMissing is of a Secret of the object's own namespace that is not there.
	ErrMissing = errors.New("the credential Secret is not there")
	// ErrNotShared means that a Secret of another namespace may not be used or does not exist. One
	// error for both does not reveal which Secrets another namespace has.
	ErrNotShared = errors.New("the credential Secret is not shared")
	// ErrForbidden is of a Secret that the reader must not read.
	ErrForbidden = errors.New("the credential Secret must not be read")
)

// Ref names the Secret of a credential.
type Ref struct {
	types.NamespacedName
	// From is the namespace of the object that names it.
	From string
}

// Parse parses the name of a credential in an object of the namespace from: <name>, or
// <namespace>:<name>.
func Parse(from, name string) Ref {
	if namespace, rest, ok := strings.Cut(name, ":"); ok {
		return Ref{types.NamespacedName{Namespace: namespace, Name: rest}, from}
	}
	return Ref{types.NamespacedName{Namespace: from, Name: name}, from}
}

// IsForeign reports whether the Secret is in another namespace than the object that names it.
func (r Ref) IsForeign() bool { return r.Namespace != r.From }

// Read reads the Secret into obj, whatever its type. For an invalid name it returns not found.
func (r Ref) Read(ctx context.Context, reader client.Reader, obj client.Object) error {
	if len(validation.IsDNS1123Label(r.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(r.Name)) > 0 {
		return apierrors.NewNotFound(corev1.Resource("secrets"), r.Name)
	}
	return reader.Get(ctx, r.NamespacedName, obj) //nolint:wrapcheck // the caller interprets the error by its kind
}

// Source finds the Secrets of credentials.
type Source struct {
	Reader client.Reader
	// Trusted are namespaces with credentials of Rancher's that objects of every namespace may use.
	Trusted []string
}

// rancherPrefix is the prefix of the names of credentials that Rancher's user interface creates.
const rancherPrefix = "cc-"

// Look reads a Secret, or only its metadata, if the object that names it may use it; otherwise it
// returns one of the errors above.
func (s Source) Look(ctx context.Context, ref Ref, secret client.Object) error {
	err := ref.Read(ctx, s.Reader, secret)
	switch {
	case client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err):
		return fmt.Errorf("reading the credential Secret %s: %w", ref, err)
	case ref.IsForeign() && (err != nil || !s.isShared(secret, ref.From)):
		return ErrNotShared
	case apierrors.IsForbidden(err):
		return ErrForbidden
	case err != nil:
		return ErrMissing
	}
	return nil
}

// isShared reports whether a Secret allows the namespace of the object that uses it, or is a
// credential of Rancher's in a trusted namespace.
func (s Source) isShared(secret client.Object, from string) bool {
	return rkev1.Allows(secret, from) || slices.Contains(s.Trusted, secret.GetNamespace()) && strings.HasPrefix(secret.GetName(), rancherPrefix)
}

// Refused is the error of a credential that cannot be used until a user changes it. It has the
// reason of a condition, and the remedy.
type Refused struct {
	Reason  string
	Message string
	cause   error
}

// Error implements error.
func (r *Refused) Error() string { return r.Message }

// Unwrap gives the sentinel, if it is one.
func (r *Refused) Unwrap() error { return r.cause }

// Resolve reads the credential that an object in the namespace from, with this spec, gives its
// driver through the Secret that it names. Its error may be a *Refused.
func (s Source) Resolve(ctx context.Context, from, name, driver string, fields []crdgen.Field, spec map[string]any) (state.Credential, error) {
	ref, secret := Parse(from, name), &corev1.Secret{}
	keys := strings.Join(RequiredKeys(fields, spec), ", ")
	refuse := func(err error, reason, format string, args ...any) (state.Credential, error) {
		return state.Credential{}, &Refused{Reason: reason, Message: fmt.Sprintf(format, args...), cause: err}
	}
	switch err := s.Look(ctx, ref, secret); {
	case errors.Is(err, ErrNotShared):
		return refuse(err, rkev1.CredentialNotSharedReason, "there is no Secret %s that may be used here: create it, and name this namespace, %s, in its annotation %s",
			name, from, rkev1.AllowedNamespacesAnnotation)
	case errors.Is(err, ErrForbidden):
		return refuse(err, rkev1.CredentialInvalidReason, "the credential Secret %s in namespace %s must not be read: let the manager's service account get it (keys %s)",
			ref.Name, ref.Namespace, keys)
	case errors.Is(err, ErrMissing):
		return refuse(err, rkev1.CredentialMissingReason, "the credential Secret %s is not there: create it in namespace %s with the keys %s", name, ref.Namespace, keys)
	case err != nil:
		return state.Credential{}, err
	case !slices.Contains([]corev1.SecretType{rkev1.CloudCredentialSecretType, corev1.SecretTypeOpaque, ""}, secret.Type):
		return refuse(nil, rkev1.CredentialInvalidReason, "Secret %s is of type %s: a credential is of type %s or %s",
			name, secret.Type, rkev1.CloudCredentialSecretType, corev1.SecretTypeOpaque)
	}
	fields = givenIn(fields, spec)
	env, err := Env(driver, fields, secret.Data)
	if err != nil {
		return refuse(err, rkev1.CredentialInvalidReason, "Secret %s: %v", name, err)
	}
	return state.Credential{Name: name, Version: string(secret.UID) + "/" + secret.ResourceVersion, Env: env, Files: Files(driver, fields, secret.Data)}, nil
}
