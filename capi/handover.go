package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
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
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		found, err := Installed(ctx, h.live)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if len(found.Foreign) > 0 {
			return fmt.Errorf("another Cluster API is being installed (%s): this manager stops, so that no two of it work on one cluster; "+
				"started again with --capi=auto it leaves Cluster API to the other one", strings.Join(found.Foreign, ", "))
		}
	}
}
