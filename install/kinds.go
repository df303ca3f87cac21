package install

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
)

// FieldOwner is the field owner of this package's objects.
const FieldOwner = "drover-manager"

// establishTimeout is how long the API server may take to serve new kinds.
const establishTimeout = 2 * time.Minute

// Kinds installs our static CRDs, and Cluster API's if we run it, and waits until they are served.
func Kinds(ctx context.Context, c client.Client, embedded bool) error {
	crds, err := charts.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if crd.Labels == nil {
			crd.Labels = map[string]string{}
		}
		crd.Labels[capi.InstalledByLabel] = capi.InstalledByValue
	}
	if embedded {
		core, err := capi.CRDs()
		if err != nil {
			return err
		}
		crds = append(crds, core...)
	}
	applier := apply.Applier{Client: c, Reader: c, Owner: FieldOwner}
	names := make([]string, 0, len(crds))
	for _, crd := range crds {
		if _, err := applier.Apply(ctx, crd); err != nil {
			return fmt.Errorf("installing a CRD: %w", err)
		}
		names = append(names, crd.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	return apply.AwaitEstablished(ctx, c, names...)
}
