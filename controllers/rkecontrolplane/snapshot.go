package rkecontrolplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/releases"
)

// member is a Machine of the cluster with the objects that belong to it.
type member struct {
	*clusterv1.Machine
	// plan is its plan Secret, as far as it is kept in memory; nil while it is not there.
	plan *corev1.Secret
}

// observe completes the snapshot that machines and ensureSecrets began.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	c := &s.snapshot
	c.Name, c.Namespace, c.Spec, c.InitMachineID = cmp.Or(s.Spec.ClusterName, s.cluster.Name), s.Namespace, s.Spec, s.Labels[rkev1.InitNodeMachineIDLabel]
	c.Established = s.IsEstablished()
	c.InfrastructureProvisioned = ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false)
	endpoint, err := r.endpoint(ctx, s.cluster)
	if err != nil {
		return err
	}
	c.Endpoint = endpoint.Host
	if c.Releases, c.ReleasesError, err = r.catalogue.get(ctx, r.Cache, r.Reader, r.Releases); err != nil {
		return err
	}
	if err := r.objects(ctx, s); err != nil {
		return err
	}
	madeCluster := func(m member) bool { // it is the init node, and has applied a plan
		return m.plan != nil && m.plan.Annotations[rkev1.JoinedToAnnotation] == "-" && len(m.plan.Data[plan.KeyAppliedChecksum]) > 0
	}
	if i := slices.IndexFunc(s.members, madeCluster); i >= 0 && c.Machines[i].ID != "" {
		return r.rememberBootstrapped(ctx, s, c.Machines[i].ID)
	}
	return nil
}

// endpoint returns the address that the user gave for the cluster's API, if any. Cluster API has
// copied the first address that it saw, which may be the placeholder "localhost".
func (r *Reconciler) endpoint(ctx context.Context, cluster *clusterv1.Cluster) (clusterv1.APIEndpoint, error) {
	given := []clusterv1.APIEndpoint{cluster.Spec.ControlPlaneEndpoint}
	if ref := cluster.Spec.InfrastructureRef; ref.APIGroup == rkev1.GroupVersion.Group && ref.Kind == "RKECluster" {
		infrastructure := &rkev1.RKECluster{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}, infrastructure)
		if client.IgnoreNotFound(err) != nil {
			return clusterv1.APIEndpoint{}, fmt.Errorf("reading the RKECluster %s: %w", ref.Name, err)
		}
		given = append([]clusterv1.APIEndpoint{infrastructure.Spec.ControlPlaneEndpoint}, given...)
	}
	for _, one := range given {
		if one.IsValid() && one.Host != "localhost" {
			return one, nil
		}
	}
	return clusterv1.APIEndpoint{}, nil
}

// objects reads the existing objects that the specification names, one after the other, and keeps
// the part that the planner uses.
func (r *Reconciler) objects(ctx context.Context, s *scope) error {
	uses, room := planner.NewUses(s.Spec), planner.MaxObjectBytes
	s.snapshot.Objects, s.snapshot.TooLarge = map[planner.ObjectKey]planner.Object{}, nil
	for _, key := range planner.References(s.Spec) {
		object, err := r.object(ctx, s, key)
		if errors.Is(err, credential.ErrNotShared) {
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %s: %w", key.Kind, key.Name, err)
		}
		if err != nil {
			continue
		}
		object.Data = uses.Of(key, object.Data)
		for name, value := range object.Data {
			room -= len(name) + len(value)
		}
		if room < 0 {
			s.snapshot.TooLarge = &key
			return nil
		}
		s.snapshot.Objects[key] = object
	}
	return nil
}

// object reads one object and labels it for a move. An object of another namespace is not moved;
// only a credential that control planes of this namespace may use can be in another namespace.
func (r *Reconciler) object(ctx context.Context, s *scope, key planner.ObjectKey) (planner.Object, error) {
	secret, config := &corev1.Secret{}, &corev1.ConfigMap{}
	read := client.Object(secret)
	if key.Kind != planner.SecretKind {
		read = config
	}
	var err error
	ref, s3 := credential.Parse(s.Namespace, key.Name), ptr.Deref(s.Spec.ETCD, rkev1.ETCD{}).S3
	switch {
	case !ref.IsForeign():
		if err = ref.Read(ctx, r.Reader, read); err == nil {
			err = r.takeAlong(ctx, read)
		}
	case s3 == nil || key != (planner.ObjectKey{Kind: planner.SecretKind, Name: s3.CloudCredentialName}): // nothing else that the specification names may be there
		err = credential.ErrNotShared
	default:
		err = credential.Source{Reader: r.Reader, Trusted: r.TrustedCredentialNamespaces}.Look(ctx, ref, secret)
	}
	object := planner.Object{Type: string(secret.Type), Data: map[string][]byte{},
		AuthorizedClusters: read.GetAnnotations()[rkev1.AuthorizedForClustersAnnotation]}
	maps.Copy(object.Data, secret.Data)
	maps.Copy(object.Data, config.BinaryData)
	for key, text := range config.Data {
		object.Data[key] = []byte(text)
	}
	return object, err
}

// machines reads the cluster's Machines with our bootstrap provider and their plan Secrets. It
// returns the Machines even if the plan Secrets are too large.
func (r *Reconciler) machines(ctx context.Context, s *scope) error {
	plans, exceeded := r.planSecrets(ctx, s)
	if _, stalled := errors.AsType[*step.Stalled](exceeded); exceeded != nil && !stalled {
		return exceeded
	}
	s.plans = plans
	ofCluster := []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}}
	list, bootstraps := &clusterv1.MachineList{}, &rkev1.RKEBootstrapList{}
	if err := r.Client.List(ctx, list, ofCluster...); err != nil {
		return fmt.Errorf("reading the Machines: %w", err)
	}
	if err := r.Client.List(ctx, bootstraps, ofCluster...); err != nil {
		return fmt.Errorf("reading the RKEBootstraps: %w", err)
	}
	ids := map[string]string{}
	for i := range bootstraps.Items {
		ids[bootstraps.Items[i].Name] = bootstraps.Items[i].Labels[rkev1.MachineIDLabel]
	}
	for i := range list.Items {
		machine := &list.Items[i]
		s.providerIDs = append(s.providerIDs, machine.Spec.ProviderID)
		if !isMember(machine, s.cluster) {
			continue
		}
		ref, seen := machine.Spec.Bootstrap.ConfigRef, readMachine(machine)
		seen.ID = ids[ref.Name]
		if err := r.common(ctx, machine, &seen); err != nil {
			return err
		}
		m := member{machine, s.plans[ref.Name]}
		if m.plan != nil {
			seen.Secret = &planner.Secret{Data: m.plan.Data, Delivered: deliveredTo(m.plan),
				InitNode: m.plan.Labels[rkev1.InitNodeLabel] == "true", JoinedTo: m.plan.Annotations[rkev1.JoinedToAnnotation],
				AgentServer: m.plan.Annotations[rkev1.AgentServerAnnotation], Retried: m.plan.Annotations[rkev1.PlanRetriedAnnotation],
				SilentSince: r.silentSince(s, m.plan), Overdue: r.overdue(s, machine)}
		}
		s.members, s.snapshot.Machines = append(s.members, m), append(s.snapshot.Machines, seen)
	}
	return exceeded
}

// isMember reports whether a Machine is the Cluster's, with a bootstrap of ours.
func isMember(machine *clusterv1.Machine, cluster *clusterv1.Cluster) bool {
	ref := machine.Spec.Bootstrap.ConfigRef
	return machine.Spec.ClusterName == cluster.Name && ref.Kind == "RKEBootstrap" && ref.APIGroup == rkev1.GroupVersion.Group
}

// overdue reports whether a machine that has applied its plan has been unhealthy for longer than
// allowed. Its own conditions record the start.
func (r *Reconciler) overdue(s *scope, machine *clusterv1.Machine) bool {
	conditions := machine.Status.Conditions
	applied, reconciled := meta.FindStatusCondition(conditions, rkev1.PlanAppliedCondition), meta.FindStatusCondition(conditions, rkev1.ReconciledCondition)
	if applied == nil || reconciled == nil || applied.Status != metav1.ConditionTrue || reconciled.Status == metav1.ConditionTrue {
		return false
	}
	since := applied.LastTransitionTime.Time
	if reconciled.LastTransitionTime.After(since) {
		since = reconciled.LastTransitionTime.Time
	}
	left := since.Add(planner.ProbesPatience).Sub(r.Clock.Now())
	s.comeAgain(left)
	return left <= 0
}

// agentPatience is added to the end of an agent's access before the access counts as lost, and to
// the start of the manager, so that each agent has time to renew its access.
const agentPatience = 30 * time.Minute

// silentSince returns when the agent of a plan Secret was last seen, if that is so long ago that
// its access has ended; otherwise zero.
func (r *Reconciler) silentSince(s *scope, secret *corev1.Secret) time.Time {
	seen, err := time.Parse(time.RFC3339, secret.Annotations[rkev1.AgentSeenAnnotation])
	if err != nil {
		return time.Time{}
	}
	due := seen.Add(connect.TokenLife)
	if due.Before(r.started) { // no agent could renew its access while no manager ran
		due = r.started
	}
	if left := due.Add(agentPatience).Sub(r.Clock.Now()); left > 0 {
		s.comeAgain(left)
		return time.Time{}
	}
	return seen
}

// readMachine reads a Machine. Cluster API has copied the facts about the server from the infra
// machine of any provider.
func readMachine(machine *clusterv1.Machine) planner.Machine {
	m := planner.Machine{Name: machine.Name, Labels: machine.Labels, Roles: planner.RolesOf(machine.Labels), OS: machine.Labels[rkev1.OSLabel],
		NodeName: machine.Labels[rkev1.MachineNodeNameLabel], Deleting: !machine.DeletionTimestamp.IsZero(), Joined: machine.Status.NodeRef.IsDefined(),
		KubeletVersion: kubeletVersion(machine), ProviderID: machine.Spec.ProviderID,
		Provisioned: ptr.Deref(machine.Status.Initialization.InfrastructureProvisioned, false)}
	m.ExternalIPs, m.InternalIPs = rkev1.MachineAddresses(machine)
	server := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	m.Restored = server != nil && server.Reason == rkev1.OwnerUnknownReason
	return m
}

// common reads the user's request for another attempt from the infra machine, and the labels and
// taints of the Node from the infra machine and from the Machine's annotations; the annotations win.
func (r *Reconciler) common(ctx context.Context, machine *clusterv1.Machine, m *planner.Machine) error {
	m.NodeLabels = map[string]string{}
	if ref := machine.Spec.InfrastructureRef; ref.APIGroup == rkev1.MachineGroupVersion.Group {
		infrastructure := &unstructured.Unstructured{}
		infrastructure.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(ref.Kind))
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: ref.Name}, infrastructure)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
		}
		if asked := infrastructure.GetAnnotations()[rkev1.RetryAnnotation]; asked != "" {
			m.Retry = plan.Checksum([]byte(asked))[:16] // a user may write a long value
		}
		var common rkev1.RKECommonNodeConfig
		given, _, _ := unstructured.NestedMap(infrastructure.Object, "spec", rkev1.CommonField)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &common); err != nil {
			m.Invalid = fmt.Sprintf("spec.common of its %s %s cannot be read: %v", ref.Kind, ref.Name, err)
		} else if err := cmp.Or(planner.CheckLabels(common.Labels), planner.CheckTaints(common.Taints)); err != nil {
			m.Invalid = fmt.Sprintf("spec.common of its %s %s: %v", ref.Kind, ref.Name, err)
		}
		maps.Copy(m.NodeLabels, common.Labels)
		m.NodeTaints, m.InstanceName = common.Taints, ofOwnName(infrastructure)
	}
	labels, err := annotated(machine, rkev1.NodeLabelsAnnotation, planner.CheckLabels)
	taints, taintsErr := annotated(machine, rkev1.NodeTaintsAnnotation, planner.CheckTaints)
	if err = cmp.Or(err, taintsErr); err != nil && m.Invalid == "" {
		m.Invalid = err.Error()
	}
	maps.Copy(m.NodeLabels, labels)
	for _, taint := range taints {
		m.NodeTaints = slices.DeleteFunc(m.NodeTaints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
	}
	m.NodeTaints = append(m.NodeTaints, taints...)
	return nil
}

// annotated decodes and validates an annotation of a Machine about its Node, in JSON.
func annotated[T any](machine *clusterv1.Machine, name string, check func(T) error) (value T, err error) {
	text := machine.Annotations[name]
	if text == "" {
		return value, nil
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return value, fmt.Errorf("its annotation %s cannot be read: %w", name, err)
	}
	if err := check(value); err != nil {
		return value, fmt.Errorf("its annotation %s: %w", name, err)
	}
	return value, nil
}

// ReleasesKey of the ConfigMap holds the catalogue.
const ReleasesKey = "releases.yaml"

// catalogue keeps the last parsed version: all clusters use the same.
type catalogue struct {
	mu      sync.Mutex
	read    bool
	version string // of the ConfigMap; empty without a ConfigMap
	parsed  *releases.Catalogue
	problem string
}

// Catalogue returns a function that reads the catalogue for admission, like the Reconciler.
func Catalogue(cached, live client.Reader, name types.NamespacedName) func(context.Context) (*releases.Catalogue, string, error) {
	c := &catalogue{}
	return func(ctx context.Context) (*releases.Catalogue, string, error) { return c.get(ctx, cached, live, name) }
}

// get returns the catalogue in the ConfigMap, the built-in one if the ConfigMap does not exist, or
// why the ConfigMap cannot be used. It reads the ConfigMap again when its metadata in the manager's
// cache change.
func (c *catalogue) get(ctx context.Context, cached, live client.Reader, name types.NamespacedName) (*releases.Catalogue, string, error) {
	found := &corev1.ConfigMap{}
	if name.Name != "" {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := cached.Get(ctx, name, metadata); client.IgnoreNotFound(err) != nil {
			return nil, "", fmt.Errorf("looking for the ConfigMap %s: %w", name, err)
		}
		found.ResourceVersion = metadata.ResourceVersion
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read && c.version == found.ResourceVersion {
		return c.parsed, c.problem, nil
	}
	if found.ResourceVersion != "" {
		if err := live.Get(ctx, name, found); err != nil { // also for NotFound: an event follows when the cache has caught up
			return nil, "", fmt.Errorf("reading the ConfigMap %s: %w", name, err)
		}
	}
	c.read, c.version = true, found.ResourceVersion
	c.parsed, c.problem = parseReleases(name, found)
	return c.parsed, c.problem, nil
}

func parseReleases(name types.NamespacedName, found *corev1.ConfigMap) (parsed *releases.Catalogue, problem string) {
	text, err := found.Data[ReleasesKey], error(nil)
	switch {
	case found.ResourceVersion == "":
		parsed, err = releases.Default()
	case text == "":
		return nil, fmt.Sprintf("the ConfigMap %s has no value under the key %s", name, ReleasesKey)
	default:
		parsed, err = releases.Parse([]byte(text))
	}
	if err != nil {
		return nil, fmt.Sprintf("the ConfigMap %s: %v", name, err)
	}
	return parsed, ""
}

// ofOwnName returns the instance name of an existing host, which keeps its own host name. It
// returns "" for a server that has its instance's name. Host names can repeat in a cluster;
// instance names cannot.
func ofOwnName(infrastructure *unstructured.Unstructured) string {
	instance, _, _ := unstructured.NestedString(infrastructure.Object, "status", "instanceName")
	addresses, _, _ := unstructured.NestedSlice(infrastructure.Object, "status", "addresses")
	for _, item := range addresses {
		address, _ := item.(map[string]any)
		if address["type"] == string(clusterv1.MachineHostName) && address["address"] != instance {
			return instance
		}
	}
	return ""
}
