package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// ErrNoKubeconfig is of a Cluster that is there, and whose control plane has not written its
// kubeconfig.
var ErrNoKubeconfig = errors.New("has no kubeconfig yet")

// Kubeconfig gets the Secret <cluster>-kubeconfig, which the control plane of a CAPI Cluster writes
// by Cluster API's contract. A provisioning Cluster has the name of its CAPI Cluster. The error says whether the Cluster or only its kubeconfig is missing.
// The content is not parsed: capi/kubeconfig reads it.
func (a *API) Kubeconfig(ctx context.Context, namespace, cluster string) ([]byte, error) {
	name := secret.Name(cluster, secret.Kubeconfig)
	found, err := a.secret(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if found != nil {
		return found.Data[secret.KubeconfigDataName], nil
	}
	// A provisioning Cluster has no CAPI Cluster yet before it is rendered. A user may have access to
	// one of the two only.
	capi, err := a.object(ctx, capiClusters, namespace, cluster)
	ours, provErr := a.object(ctx, provisioned, namespace, cluster)
	switch {
	case capi != nil || ours != nil:
	case err != nil:
		return nil, err
	case provErr != nil:
		return nil, provErr
	default:
		return nil, fmt.Errorf("no Cluster %q in namespace %q (see 'kubectl get clusters.provisioning.cattle.io,clusters.cluster.x-k8s.io -A')", cluster, namespace)
	}
	return nil, fmt.Errorf("the Cluster %s %w: its control plane writes the Secret %s", cluster, ErrNoKubeconfig, name)
}

// NotePaused marks the machines, of a namespace or of all, that their Cluster's specification
// pauses. A user without access to Clusters sees the pause once the manager has observed it.
func (a *API) NotePaused(ctx context.Context, namespace string, machines []*facts.Machine) {
	if len(machines) == 0 {
		return
	}
	paused := map[types.NamespacedName]bool{}
	clusters, _ := list(ctx, a, capiClusters, ListOptions{Namespace: namespace}, decode[clusterv1.Cluster])
	for _, c := range clusters {
		paused[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = ptr.Deref(c.Spec.Paused, false)
	}
	for _, m := range machines {
		m.ClusterPaused = paused[types.NamespacedName{Namespace: m.Namespace, Name: m.ClusterName()}]
	}
}

// NoteLeaving notes the machines whose CAPI Machine is being deleted. Without the permission to
// list CAPI Machines, it notes none.
func (a *API) NoteLeaving(ctx context.Context, namespace string, machines []*facts.Machine) {
	if len(machines) == 0 {
		return
	}
	leaving := map[types.NamespacedName]*metav1.Condition{}
	owners, _ := list(ctx, a, capiMachines, ListOptions{Namespace: namespace}, decode[clusterv1.Machine])
	for _, owner := range owners {
		if owner.DeletionTimestamp != nil {
			deleting := ptr.Deref(meta.FindStatusCondition(owner.Status.Conditions, clusterv1.MachineDeletingCondition), metav1.Condition{})
			leaving[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}] = &deleting
		}
	}
	for _, m := range machines {
		if m.DeletionTimestamp == nil {
			m.Leaving = leaving[types.NamespacedName{Namespace: m.Namespace, Name: m.CAPIMachineName()}]
		}
	}
}

// Names lists the names of the objects of a kind, in a namespace if it has any: of Cluster,
// Cluster.provisioning, RKEControlPlane, NodeDriver or Namespace, else of MachineDeployments or MachineSets, which word
// says.
func (a *API) Names(ctx context.Context, namespace, kind, word string) ([]string, error) {
	switch kind {
	case "Cluster":
		// A provisioning Cluster has a CAPI Cluster of its name, once it is rendered.
		capi, err := a.names(ctx, capiClusters, ListOptions{Namespace: namespace})
		ours, provErr := a.names(ctx, provisioned, ListOptions{Namespace: namespace})
		if err != nil && provErr != nil {
			return nil, err
		}
		return slices.Compact(slices.Sorted(slices.Values(append(capi, ours...)))), nil
	case "Cluster.provisioning":
		return a.names(ctx, provisioned, ListOptions{Namespace: namespace})
	case "RKEControlPlane":
		return a.names(ctx, controlPlanes, ListOptions{Namespace: namespace})
	case "NodeDriver":
		return a.names(ctx, nodeDrivers, ListOptions{})
	case "Namespace":
		return a.names(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), ListOptions{})
	}
	_, resource := pools(word)
	return a.names(ctx, resource, ListOptions{Namespace: namespace})
}

// ClusterSnapshot reads everything about a CAPI Cluster; nil when it does not exist.
func (a *API) ClusterSnapshot(ctx context.Context, namespace, name string, now time.Time) (*facts.ClusterSnapshot, error) {
	cluster, err := get[clusterv1.Cluster](ctx, a, capiClusters, namespace, name)
	if err != nil || cluster == nil {
		return nil, err
	}
	s := &facts.ClusterSnapshot{Now: now, Cluster: cluster}
	read := func(err error) { s.Problems = appendProblem(s.Problems, err) }
	infrastructure, err := a.named(ctx, namespace, s.Cluster.Spec.InfrastructureRef)
	read(err)
	controlPlane, err := a.named(ctx, namespace, s.Cluster.Spec.ControlPlaneRef)
	read(err)
	uids := []types.UID{s.Cluster.UID}
	if infrastructure != nil {
		s.Infrastructure = new(facts.DecodeObject(infrastructure))
		uids = append(uids, infrastructure.GetUID())
	}
	if controlPlane != nil {
		s.ControlPlane = new(facts.DecodeObject(controlPlane))
		s.Version, _, _ = unstructured.NestedString(controlPlane.Object, "spec", "kubernetesVersion")
		uids = append(uids, controlPlane.GetUID())
	}
	ofCluster := ListOptions{Namespace: namespace, Selector: labels.Set{clusterv1.ClusterNameLabel: name}.String()}
	s.Machines, err = list(ctx, a, capiMachines, ofCluster, decode[clusterv1.Machine])
	read(err)
	for i := 0; i < len(s.Machines) && s.Failure == nil && err == nil; i++ {
		s.Failure, err = a.failure(ctx, &s.Machines[i])
		read(err)
	}
	if cluster.Labels[rkev1.ClusterNameLabel] == name {
		s.Provisioning, err = a.Provisioning(ctx, namespace, name)
		read(err)
	}
	s.Events, err = a.eventsOf(ctx, namespace, uids)
	read(err)
	return s, nil
}

// Provisioning reads a provisioning Cluster; nil when it does not exist.
func (a *API) Provisioning(ctx context.Context, namespace, name string) (*facts.Object, error) {
	found, err := a.object(ctx, provisioned, namespace, name)
	if found == nil || err != nil {
		return nil, err
	}
	return new(facts.DecodeObject(found)), nil
}

// ClusterRemains reads the remains of a CAPI Cluster that does not exist, by its label.
func (a *API) ClusterRemains(ctx context.Context, namespace, name string) *facts.ClusterRemains {
	left := &facts.ClusterRemains{Namespace: namespace, Name: name}
	read := func(err error) { left.Problems = appendProblem(left.Problems, err) }
	ofCluster := ListOptions{Namespace: namespace, Selector: labels.Set{clusterv1.ClusterNameLabel: name}.String()}
	kinds, err := a.Kinds(ctx)
	read(err)
	left.Machines, _, err = a.Machines(ctx, kinds, ofCluster)
	read(err)
	left.CAPIMachines, err = list(ctx, a, capiMachines, ofCluster, decode[clusterv1.Machine])
	if !isAbsent(err) {
		read(err)
	}
	secrets, err := a.Kube.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: ofCluster.Selector})
	if err != nil {
		read(fmt.Errorf("listing the Secrets of Cluster %s: %w", name, err))
		return left
	}
	for i := range secrets.Items {
		left.Secrets = append(left.Secrets, secrets.Items[i].Name)
	}
	return left
}

// ControlPlaneSnapshot reads everything about an RKEControlPlane and its Cluster, if a Cluster has
// it as its own; nil when it does not exist.
func (a *API) ControlPlaneSnapshot(ctx context.Context, namespace, name string, now time.Time) (*facts.ClusterSnapshot, error) {
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.GroupVersion.Group, Kind: "RKEControlPlane", Name: name}
	u, err := a.named(ctx, namespace, ref)
	if err != nil || u == nil {
		return nil, err
	}
	cluster, _, _ := unstructured.NestedString(u.Object, "spec", "clusterName")
	for _, owner := range u.GetOwnerReferences() {
		if owner.Kind == "Cluster" {
			cluster = owner.Name
		}
	}
	alone := &facts.ClusterSnapshot{Now: now, ControlPlane: new(facts.DecodeObject(u))}
	alone.Version, _, _ = unstructured.NestedString(u.Object, "spec", "kubernetesVersion")
	if cluster != "" {
		s, err := a.ClusterSnapshot(ctx, namespace, cluster, now)
		if err == nil && s != nil && s.ControlPlane != nil && s.Cluster.Spec.ControlPlaneRef == ref {
			return s, nil
		}
		alone.Problems = appendProblem(alone.Problems, err)
	}
	alone.Events, err = a.eventsOf(ctx, namespace, []types.UID{u.GetUID()})
	alone.Problems = appendProblem(alone.Problems, err)
	return alone, nil
}

// named gets an object of our own groups that a Cluster refers to; nil if it is of another group,
// or does not exist.
func (a *API) named(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if ref.APIGroup != rkev1.GroupVersion.Group || ref.Name == "" {
		return nil, nil
	}
	return a.object(ctx, rkev1.GroupVersion.WithResource(strings.ToLower(ref.Kind)+"s"), namespace, ref.Name)
}
