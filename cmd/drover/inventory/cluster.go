package inventory

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
)

// Kubeconfig gets what the control plane of a CAPI Cluster wrote for its users, the Secret <cluster>-kubeconfig of Cluster API's contract. The
// error says whether the Cluster is not there or only its kubeconfig. The content is as it was found: capi/kubeconfig reads it.
func (a *API) Kubeconfig(ctx context.Context, namespace, cluster string) ([]byte, error) {
	name := secret.Name(cluster, secret.Kubeconfig)
	found, err := a.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return found.Data[secret.KubeconfigDataName], nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("getting the kubeconfig of %s/%s: %w", namespace, cluster, err)
	}
	there, err := a.getInto(ctx, capiClusters, namespace, cluster, &clusterv1.Cluster{})
	switch {
	case err != nil:
		return nil, err
	case !there:
		return nil, fmt.Errorf("no Cluster %q in namespace %q (see 'kubectl get clusters -A')", cluster, namespace)
	}
	return nil, fmt.Errorf("the Cluster %s has no kubeconfig yet: its control plane writes the Secret %s (see 'clusterctl describe cluster %s -n %s')", cluster, name, cluster, namespace)
}

// ClusterNames lists the CAPI Clusters of a namespace.
func (a *API) ClusterNames(ctx context.Context, namespace string) ([]string, error) {
	list, err := a.Dynamic.Resource(capiClusters).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].GetName()
	}
	return names, nil
}
