package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
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

func decodeCluster(u *unstructured.Unstructured) (*provv1.Cluster, error) {
	return facts.DecodeCluster(u.Object)
}
