package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// errNoClusterKind means that the API server does not serve provisioning Clusters.
var errNoClusterKind = errors.New("this cluster has no clusters.provisioning.cattle.io: Drover is not installed here, or the kubeconfig's context is another cluster's")

// Clusters lists the provisioning Clusters.
func (a *API) Clusters(ctx context.Context, o ListOptions) ([]*provv1.Cluster, error) {
	clusters, err := list(ctx, a, provisioned, o, decodeCluster)
	if isAbsent(err) {
		return nil, errNoClusterKind
	}
	return clusters, err
}

// Cluster gets a provisioning Cluster; nil when it does not exist.
func (a *API) Cluster(ctx context.Context, namespace, name string) (*provv1.Cluster, error) {
	u, err := a.object(ctx, provisioned, namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	return decodeCluster(u)
}

// NoClusterError returns the error for a provisioning Cluster that does not exist. It names a CAPI
// Cluster of this name, and the namespaces that have a provisioning Cluster of this name.
func (a *API) NoClusterError(ctx context.Context, namespace, name, command string) error {
	text := fmt.Sprintf("no cluster.provisioning.cattle.io %q in namespace %q", name, namespace)
	elsewhere, err := list(ctx, a, provisioned, ListOptions{name: name}, func(u *unstructured.Unstructured) (string, error) { return u.GetNamespace(), nil })
	if isAbsent(err) {
		return errNoClusterKind
	}
	if capi, _ := a.object(ctx, capiClusters, namespace, name); capi != nil {
		return fmt.Errorf("%s; cluster.cluster.x-k8s.io/%s exists and has none: change it with kubectl", text, name)
	}
	if len(elsewhere) > 0 {
		return fmt.Errorf("%s; there is one in namespace %s (use -n)", text, strings.Join(elsewhere, ", "))
	}
	return fmt.Errorf("%s (see '%s clusters -A')", text, command)
}

// ClusterTree reads the machines of a provisioning Cluster.
func (a *API) ClusterTree(ctx context.Context, cluster *provv1.Cluster, now time.Time) *facts.ClusterTree {
	tree := &facts.ClusterTree{Now: now, Cluster: cluster, Deployments: map[string]facts.Object{}}
	read := func(err error) { tree.Problems = appendProblem(tree.Problems, err) }
	ofCluster := ListOptions{Namespace: cluster.Namespace, Selector: labels.Set{clusterv1.ClusterNameLabel: cluster.Name}.String()}
	capi, err := list(ctx, a, capiMachines, ofCluster, decode[clusterv1.Machine])
	read(err)
	kinds, err := a.Kinds(ctx)
	read(err)
	infra, denied, err := a.Machines(ctx, kinds, ofCluster)
	read(err)
	if len(denied) > 0 {
		tree.Problems = append(tree.Problems, fmt.Sprintf("you lack the right to list %s of %s", strings.Join(denied, ", "), rkev1.MachineGroupVersion.Group))
	}
	jobs, err := a.jobs(ctx, cluster.Namespace, rkev1.MachineUIDLabel)
	read(err)
	tree.Machines = facts.JoinMachines(capi, infra, jobs)
	made, err := list(ctx, a, deployments, ofCluster, func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) { return u, nil })
	read(err)
	for _, deployment := range made {
		if pool := deployment.GetLabels()[rkev1.MachinePoolLabel]; pool != "" {
			tree.Deployments[pool] = facts.DecodeObject(deployment)
		}
	}
	return tree
}

// MachineSnapshot reads everything about a machine of a Cluster.
func (a *API) MachineSnapshot(ctx context.Context, m *facts.ClusterMachine, now time.Time) *facts.Snapshot {
	target := Target{Machine: m.Infra, CAPIMachine: m.CAPI}
	namespace := ""
	if m.CAPI != nil {
		namespace = m.CAPI.Namespace
		if m.Infra == nil {
			target.MissingKind = m.CAPI.Spec.InfrastructureRef.Kind
		}
	} else {
		namespace = m.Infra.Namespace
	}
	return a.Snapshot(ctx, target, namespace, m.Name(), now)
}

func decodeCluster(u *unstructured.Unstructured) (*provv1.Cluster, error) {
	return facts.DecodeCluster(u.Object)
}
