package rkebootstrap

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/controllers/step"
)

// Keys of the bootstrap Secret: value and format are Cluster API's. token is the token in value
// until it is burned. From then on agentKey is the public key of the machine's agent, which also
// identifies the agent if the plan Secret is created again.
const (
	valueKey  = "value"
	formatKey = "format"
	tokenKey  = "token"
	agentKey  = plan.KeyAgentPublicKey
)

// DataSecretName is the name of a machine's bootstrap Secret.
func DataSecretName(bootstrap string) string { return bootstrap + "-machine-bootstrap" }

// ensureSecrets creates the token once. The bootstrap Secret is written first and keeps the token
// until it is burned, so that a crash between the two Secrets leaves no token that is unknown to
// the endpoint.
func (r *Reconciler) ensureSecrets(ctx context.Context, s *scope) error {
	var err error
	if s.script, err = r.secret(ctx, s, DataSecretName(s.Name)); err != nil {
		return err
	}
	if s.plan, err = r.secret(ctx, s, plan.SecretName(s.Name)); err != nil {
		return err
	}
	if s.script == nil && s.plan == nil && s.machine.Spec.ProviderID != "" && !s.readmits() {
		return step.Wait(rkev1.AgentSecretsMissingReason, fmt.Sprintf("the server exists, but the Secrets %s and %s, which authenticate its agent, do not: restore them from a backup, "+
			"or let the agent register again as docs/endpoint.md describes", DataSecretName(s.Name), plan.SecretName(s.Name)), 0)
	}
	install := r.Endpoint()
	if install.Server == "" {
		return step.Wait(rkev1.ServerURLMissingReason, "the manager does not know at which address servers reach it: set its flag --server-url", 0)
	}
	install.Folder = s.controlPlane.Spec.DataDirectories.SystemAgent
	for _, v := range s.controlPlane.Spec.AgentEnvVars {
		install.Env = append(install.Env, plan.EnvVar(v))
	}
	token := r.tokenOf(s)
	desired, err := r.dataSecret(s, install, token)
	if err != nil {
		return step.Stall(rkev1.ConfigInvalidReason, err)
	}
	if err := errors.Join(r.scrub(ctx, s.script, tokenKey, token), r.scrub(ctx, s.plan, plan.KeyTokenHash, token)); err != nil {
		return err
	}
	if err := r.restorePlanSecret(ctx, s, token); err != nil {
		return err
	}
	applier := r.applier
	applier.Check = func(_ context.Context, live client.Object) error { return ours(s, live) }
	if _, err := applier.All(ctx, append([]client.Object{desired}, r.agentObjects(s, token)...)...); err != nil {
		return fmt.Errorf("writing the machine's Secrets and its agent's account: %w", err)
	}
	s.Status.DataSecretName, s.Status.Ready, s.Status.Initialization.DataSecretCreated = new(desired.Name), true, new(true)
	return nil
}

// scrub removes from a Secret the fields of other field managers, such as a restore, that applying
// does not remove: a burned token, or the mark that it is burned.
func (r *Reconciler) scrub(ctx context.Context, secret *corev1.Secret, key, token string) error {
	if secret == nil || secret.Annotations[rkev1.TokenBurnedAnnotation] == "" || token == "" && len(secret.Data[key]) == 0 {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:null}}}`, secret.UID, rkev1.TokenBurnedAnnotation)
	if token == "" {
		patch = fmt.Appendf(nil, `{"metadata":{"uid":%q},"data":{%q:null}}`, secret.UID, key)
	}
	if err := r.Client.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("cleaning Secret %s: %w", secret.Name, err)
	}
	return nil
}

// restorePlanSecret creates a deleted plan Secret again with the key of the known agent, which
// continues with its key and needs no token. The key is written by create, as the endpoint does,
// and not by apply, so that later applies of the other fields do not remove it.
func (r *Reconciler) restorePlanSecret(ctx context.Context, s *scope, token string) error {
	known := knownAgent(s)
	if s.plan != nil || token != "" || known == nil {
		return nil
	}
	name := plan.SecretName(s.Name)
	err := r.Client.Create(ctx, &corev1.Secret{TypeMeta: secretKind, ObjectMeta: r.secretMeta(s, name, token), Type: plan.SecretType,
		Data: map[string][]byte{plan.KeyAgentPublicKey: known}})
	if err != nil {
		return fmt.Errorf("creating the plan Secret %s again: %w", name, err)
	}
	return nil
}

// knownAgent returns the key of the agent that runs on the machine's server, if it has reported and
// the server comes from the last attempt; otherwise nil.
func knownAgent(s *scope) []byte {
	if s.script == nil || s.script.Annotations[rkev1.ArmedForAnnotation] != attemptOf(s.script) {
		return nil
	}
	if s.plan != nil {
		return s.plan.Data[plan.KeyAgentPublicKey]
	}
	return s.script.Data[agentKey]
}

// dataSecret builds the bootstrap Secret. Its annotations name the create attempt, and the version
// of the data without the token: a controller that waits for better data must not see a changed
// token as new data.
func (r *Reconciler) dataSecret(s *scope, install bootstrap.Install, token string) (*corev1.Secret, error) {
	install.Token = token
	script, err := bootstrap.Script(install)
	if err != nil {
		return nil, err
	}
	desired := &corev1.Secret{TypeMeta: secretKind, ObjectMeta: r.secretMeta(s, DataSecretName(s.Name), token), Type: rkev1.BootstrapSecretType,
		Data: map[string][]byte{valueKey: script, formatKey: []byte("cloud-config")}} // cloud-init takes scripts, too
	if token != "" {
		desired.Data[tokenKey] = []byte(token)
	} else if known := knownAgent(s); known != nil {
		desired.Data[agentKey] = known
	}
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, rkev1.ArmedForAnnotation, attemptOf(s.script))
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, rkev1.DataVersionAnnotation, strconv.Itoa(s.dataVersion(install)))
	if asked := cmp.Or(s.Annotations[rkev1.ReadmitAgentAnnotation], s.readmission()); token != "" && asked != "" {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, rkev1.ReadmitAgentAnnotation, asked)
	}
	return desired, nil
}

// dataVersion returns the version of the desired data. It increases if the script changes in more
// than its token.
func (s *scope) dataVersion(install bootstrap.Install) int {
	if s.script == nil {
		return 1
	}
	version, err := strconv.Atoi(s.script.Annotations[rkev1.DataVersionAnnotation])
	if err != nil {
		version = 1
	}
	install.Token = string(s.script.Data[tokenKey])
	if before, err := bootstrap.Script(install); err != nil || !bytes.Equal(before, s.script.Data[valueKey]) {
		version++
	}
	return version
}

// attemptOf returns the create attempt for which the infra machine requests a token; defaults to
// one token for all attempts.
func attemptOf(script *corev1.Secret) string {
	if script == nil {
		return "1"
	}
	return cmp.Or(script.Annotations[rkev1.CreateAttemptAnnotation], "1")
}

var secretKind = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}

// readmission returns the user's request for which the token in the bootstrap Secret was made;
// empty without one.
func (s *scope) readmission() string {
	if s.script == nil {
		return ""
	}
	return s.script.Annotations[rkev1.ReadmitAgentAnnotation]
}

// readmits reports whether the user asks for a token for an agent that is not known any more, and
// no token was made for this request. The user's annotation is removed afterwards, so that no
// backup repeats the request; a cache may still have it for a moment.
func (s *scope) readmits() bool {
	asked := s.Annotations[rkev1.ReadmitAgentAnnotation]
	return asked != "" && asked != s.readmission()
}

// tokenOf returns the token of the machine: the one in its bootstrap Secret; a new one before the
// first, and when the user asks for it; none after its agent has reported. An agent on the server
// of an earlier attempt has used up only the token of that attempt.
func (r *Reconciler) tokenOf(s *scope) string {
	current := ""
	if s.script != nil {
		current = string(s.script.Data[tokenKey])
	}
	bound := s.plan != nil && len(s.plan.Data[plan.KeyAgentPublicKey]) > 0
	isOfEarlier := s.script != nil && s.script.Annotations[rkev1.ArmedForAnnotation] != attemptOf(s.script)
	switch {
	case bound && isOfEarlier, s.readmits():
	case current == "" && s.script != nil && len(s.script.Data[agentKey]) > 0 && !isOfEarlier:
		return "" // its plan Secret is created again
	case bound && hasReported(s.plan.Data) && s.isUsedUp(current):
		return ""
	case current != "":
		return current
	}
	return connect.NewToken(s.Namespace, plan.SecretName(s.Name)).String()
}

// isUsedUp reports whether no agent is to register with the token: the known agent did, or its
// server became a Node without it and the user has not asked for a token.
func (s *scope) isUsedUp(token string) bool {
	read, err := connect.ParseToken(token)
	return err != nil || read.Matches(string(s.plan.Data[plan.KeyTokenUsed])) || s.machine.Status.NodeRef.IsDefined() && s.readmission() == ""
}

// hasReported reports whether an agent has written anything: from then on, the answer to its
// registration cannot be lost any more.
func hasReported(data map[string][]byte) bool {
	return slices.ContainsFunc(plan.KeysOf(plan.Agent), func(key string) bool {
		return key != plan.KeyState && key != plan.KeyProbeStatuses && len(data[key]) > 0
	})
}

// secret reads one of our Secrets, nil if it does not exist. It does not touch a Secret of the name
// that is not ours.
func (r *Reconciler) secret(ctx context.Context, s *scope, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	secret.SetGroupVersionKind(secretKind.GroupVersionKind())
	if err := ours(s, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// ours rejects an object with one of our names and another owner, because it would be overwritten
// and deleted with this object. It waits for an object that is being deleted, or that belongs to an
// earlier machine of this name: writes to it would be lost, and its agent's key is not this
// machine's. A move keeps the machine's identity, and an edit keeps the UID. An object from a
// backup has lost its owner, but not the machine's identity.
func ours(s *scope, live client.Object) error {
	what := live.GetObjectKind().GroupVersionKind().Kind + " " + live.GetName()
	owner, id := bootstrapOf(live), live.GetLabels()[rkev1.MachineIDLabel]
	if isRestored(live) && id == s.Labels[rkev1.MachineIDLabel] {
		return nil
	}
	if owner.Name != s.Name {
		return step.Stall(rkev1.NameTakenReason, fmt.Errorf("the %s does not belong to this object: delete it", what))
	}
	if !live.GetDeletionTimestamp().IsZero() {
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("%s is being deleted, and Drover creates it again afterwards; its finalizers are %q", what, live.GetFinalizers()), 0)
	}
	if owner.UID != s.UID && id != "" && id != s.Labels[rkev1.MachineIDLabel] {
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("the %s belongs to an earlier machine of this name and is deleted automatically: if it is not, delete it", what), 0)
	}
	return nil
}

// bootstrapOf returns the RKEBootstrap that owns an object; empty for another owner.
func bootstrapOf(obj client.Object) metav1.OwnerReference {
	if owner := metav1.GetControllerOf(obj); owner != nil && owner.Kind == "RKEBootstrap" {
		return *owner
	}
	return metav1.OwnerReference{}
}

// isRestored reports whether an object is a machine's and has lost its owner.
func isRestored(obj client.Object) bool {
	return obj.GetLabels()[rkev1.MachineIDLabel] != "" && len(obj.GetOwnerReferences()) == 0 && obj.GetDeletionTimestamp().IsZero()
}

// secretMeta marks a Secret whose token is burned; the watch reads only metadata.
func (r *Reconciler) secretMeta(s *scope, name, token string) metav1.ObjectMeta {
	meta := r.meta(s, name)
	if token == "" {
		meta.Annotations = map[string]string{rkev1.TokenBurnedAnnotation: "true"}
	}
	return meta
}

func (r *Reconciler) meta(s *scope, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Namespace, Name: name,
		Labels:          map[string]string{clusterv1.ClusterNameLabel: s.machine.Spec.ClusterName, rkev1.MachineIDLabel: s.Labels[rkev1.MachineIDLabel]},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.RKEBootstrap, rkev1.GroupVersion.WithKind("RKEBootstrap"))}}
}

// agentObjects returns the plan Secret, and the ServiceAccount that may read and write only this
// Secret.
func (r *Reconciler) agentObjects(s *scope, token string) []client.Object {
	name := plan.SecretName(s.Name)
	meta := func() metav1.ObjectMeta { return r.meta(s, name) }
	secret := &corev1.Secret{TypeMeta: secretKind, ObjectMeta: r.secretMeta(s, name, token), Type: plan.SecretType}
	if read, err := connect.ParseToken(token); err == nil {
		secret.Data = map[string][]byte{plan.KeyTokenHash: []byte(read.Hash())}
	}
	rbacKind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	return []client.Object{
		secret,
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta(), AutomountServiceAccountToken: new(bool)},
		&rbacv1.Role{TypeMeta: rbacKind("Role"), ObjectMeta: meta(), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"},
			ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch", "update"}}}},
		&rbacv1.RoleBinding{TypeMeta: rbacKind("RoleBinding"), ObjectMeta: meta(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: name}}},
	}
}
