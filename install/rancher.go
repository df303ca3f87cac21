package install

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
)

// ErrRancher means that Rancher runs in this cluster.
var ErrRancher = errors.New("this cluster runs Rancher")

// CheckRancher fails with ErrRancher if Rancher's server is installed: both would write the same
// objects.
func CheckRancher(ctx context.Context, reader client.Reader) error {
	for _, sign := range []struct {
		gvk schema.GroupVersionKind
		key client.ObjectKey
	}{
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), client.ObjectKey{Namespace: "cattle-system", Name: "rancher"}},
		// Only Rancher's server makes these kinds; Rancher's agents do not.
		{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), client.ObjectKey{Name: "dynamicschemas.management.cattle.io"}},
		{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), client.ObjectKey{Name: "rkecontrolplanes.rke.cattle.io"}},
	} {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(sign.gvk)
		err := reader.Get(ctx, sign.key, obj)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("looking for Rancher: %w", err)
		}
		// The chart's and clusterctl's copies of our kinds carry the provider's label; the
		// manager's copies carry its own.
		ours := obj.Labels[capi.InstalledByLabel] == capi.InstalledByValue || obj.Labels[clusterv1.ProviderNameLabel] == charts.Labels()[clusterv1.ProviderNameLabel]
		if err == nil && !ours {
			return fmt.Errorf("%w (found %s %s): Drover serves the same kinds and would fight with it over every object. "+
				"Use another cluster, or start the manager with --allow-rancher if Rancher is gone and left this behind", ErrRancher, sign.gvk.Kind, sign.key.Name)
		}
	}
	return nil
}
