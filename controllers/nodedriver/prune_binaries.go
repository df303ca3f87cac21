package nodedriver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/state"
)

// cached is one binary in the cache, as its ConfigMaps' metadata tell.
type cached struct {
	driver string
	young  bool
}

// pruneBinaries removes the cached binaries that no NodeDriver has and no machine's server was made with; it tells whether
// one is left that may be removed later.
func (r *Reconciler) pruneBinaries(ctx context.Context, drivers []v3.NodeDriver) (left bool, err error) {
	binaries, err := r.cached(ctx)
	if err != nil {
		return false, err
	}
	probing := map[string]bool{}
	for i := range drivers {
		delete(binaries, driver.CacheLabel(drivers[i].Status.Digest))
		probing[drivers[i].DriverName()] = probing[drivers[i].DriverName()] || unsettled(&drivers[i])
	}
	if len(binaries) == 0 {
		return false, nil
	}
	needed, err := r.neededByServers(ctx)
	if err != nil {
		return false, err
	}
	for digest, binary := range binaries {
		if needed[digest] || binary.young || probing[binary.driver] {
			left = true
			continue
		}
		log.FromContext(ctx).Info("Removing a cached driver that nothing uses", "driver", binary.driver, "digest", digest)
		if err := r.forgetBinary(ctx, digest); err != nil {
			return false, err
		}
	}
	return left, nil
}

// cached lists the binaries in the cache by the label that their digest is.
func (r *Reconciler) cached(ctx context.Context) (map[string]cached, error) {
	found := map[string]cached{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(configMaps)
	err := r.pages(ctx, list, func() {
		for i := range list.Items {
			part := &list.Items[i]
			digest := part.Labels[driver.CacheDigestLabel]
			found[digest] = cached{driver: part.Labels[rkev1.NodeDriverLabel], young: found[digest].young || r.young(part)}
		}
	}, client.InNamespace(driver.CacheNamespace), client.HasLabels{driver.CacheDigestLabel})
	if err != nil {
		return nil, fmt.Errorf("looking into the cache of drivers: %w", err)
	}
	return found, nil
}

// neededByServers are the binaries that machines' servers were made with, as their state says: they are to be removed with
// the same.
func (r *Reconciler) neededByServers(ctx context.Context) (map[string]bool, error) {
	needed := map[string]bool{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := r.pages(ctx, list, func() {
		for i := range list.Items {
			if ref, ok := state.ReadDriver(list.Items[i].Annotations); ok {
				needed[driver.CacheLabel(ref.Digest)] = true
			}
		}
	}, client.HasLabels{rkev1.NodeDriverLabel, rkev1.MachineUIDLabel})
	if err != nil {
		return nil, fmt.Errorf("looking for servers' drivers: %w", err)
	}
	return needed, nil
}

// forgetBinary removes the first part first, so that a binary that is half gone does not look whole.
func (r *Reconciler) forgetBinary(ctx context.Context, digest string) error {
	first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: driver.CachePartName(digest, 0)}}
	err := r.opts.Client.Delete(ctx, first)
	if client.IgnoreNotFound(err) == nil {
		err = r.opts.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(driver.CacheNamespace), client.MatchingLabels{driver.CacheDigestLabel: digest})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the cached driver %s: %w", digest, err)
	}
	return nil
}
