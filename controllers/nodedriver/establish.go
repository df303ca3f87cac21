package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/controllers/step"
)

// establishNet is when to look again for a CRD that was not seen to become established.
const establishNet = 30 * time.Second

// establish applies the CRDs and waits, by watch, until the API server serves them.
func (r *Reconciler) establish(ctx context.Context, s *scope) error {
	var waiting []string
	for _, crd := range s.crds {
		if _, err := r.applier.Apply(ctx, crd); err != nil {
			return err
		}
		live := &apiextensionsv1.CustomResourceDefinition{}
		err := r.opts.Reader.Get(ctx, client.ObjectKeyFromObject(crd), live)
		if apierrors.IsNotFound(err) {
			waiting = append(waiting, crd.Name) // it was being deleted when it was applied, and is gone now
			continue
		}
		if err != nil {
			return fmt.Errorf("reading CRD %s: %w", crd.Name, err)
		}
		if why := apply.NotAccepted(live); why != "" {
			return step.Stall(v3.NotEstablishedReason, errors.New("the API server does not accept the names of CRD "+crd.Name+": "+why))
		}
		if !apply.IsEstablished(live) || !live.DeletionTimestamp.IsZero() {
			waiting = append(waiting, crd.Name)
		}
	}
	if len(waiting) > 0 {
		return step.Progress(v3.NotEstablishedReason, "waiting for the API server to serve "+strings.Join(waiting, ", "), establishNet)
	}
	return nil
}
