package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// handover ends a manager that embeds Cluster API as soon as somebody else's is installed. `clusterctl init` writes CRDs before it makes a
// Deployment, so the embedded core is gone when the other one starts; the next start of this manager finds the other one.
type handover struct {
	cache cache.Informers
	live  client.Reader
}

var _ manager.LeaderElectionRunnable = (*handover)(nil)

// handoverRetry is how soon it looks again after the API server did not answer.
const handoverRetry = 2 * time.Second

// NeedLeaderElection implements manager.LeaderElectionRunnable: those who wait to lead would embed when they do.
func (h *handover) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (h *handover) Start(ctx context.Context) error {
	crds := &metav1.PartialObjectMetadata{}
	crds.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	informer, err := h.cache.GetInformer(ctx, crds)
	if err != nil {
		return fmt.Errorf("watching CRDs: %w", err)
	}
	changed := make(chan struct{}, 1)
	look := func(obj any) {
		if crd, ok := obj.(client.Object); ok && slices.Contains(coreCRDs, crd.GetName()) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, is any) { look(is) }}); err != nil {
		return fmt.Errorf("listening for CRDs: %w", err)
	}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
		found, err := Installed(ctx, h.live)
		if err != nil {
			// An API server that does not answer for a moment is no reason to stop.
			ctrl.LoggerFrom(ctx).Error(err, "Looking whether another Cluster API is being installed")
			again = time.After(handoverRetry)
			continue
		}
		if len(found.Foreign) > 0 {
			return fmt.Errorf("another Cluster API is being installed (%s): this manager stops, so that no two of it work on one cluster; "+
				"started again with --capi=auto it leaves Cluster API to the other one", strings.Join(found.Foreign, ", "))
		}
	}
}
