package nodedriver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/driver"
)

// userNet is the interval between checks for users: one may be deleted between the list and the
// watch.
const userNet = time.Minute

// reconcileDelete releases a NodeDriver when no machine of its kinds exists, and no CAPI Machine
// names one. Until then the kinds, the cached binary and the NodeDriver stay, so that every server
// can still be removed. The kinds also stay for templates and configs, because users wrote them.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) error {
	name := s.nd.DriverName()
	var all v3.NodeDriverList
	if err := r.opts.Reader.List(ctx, &all); err != nil {
		return fmt.Errorf("listing NodeDrivers: %w", err)
	}
	// Another NodeDriver of the same driver name, or a new one, owns the kinds already or takes
	// them over.
	if slices.ContainsFunc(all.Items, func(other v3.NodeDriver) bool {
		return other.UID != s.nd.UID && other.DriverName() == name && other.DeletionTimestamp.IsZero()
	}) {
		r.opts.Watch.Stop(s.nd.Name)
		return nil
	}
	found, err := r.users(ctx, name)
	if err != nil {
		return err
	}
	if found.count > 0 {
		r.opts.Watch.Ensure(s.nd.Name, name)
		if !found.machines {
			return nil
		}
		message := "this NodeDriver is being deleted, but it and its kinds are kept, because " + found.use("them") + ". It is deleted automatically after the machines are deleted"
		return s.notReady(v3.DeletionBlockedReason, message, userNet)
	}
	r.opts.Watch.Stop(s.nd.Name)
	left, err := r.removeKinds(ctx, name)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		message := "this NodeDriver is being deleted, and the API server is removing its kinds: " + strings.Join(left, ", ")
		return s.notReady(v3.RemovingKindsReason, message, establishNet)
	}
	// Older versions of the driver were kept for the machines they made.
	err = r.opts.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(driver.CacheNamespace), client.MatchingLabels{rkev1.NodeDriverLabel: name})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the cached driver: %w", err)
	}
	return nil
}

// removeKinds deletes a driver's CRDs that are ours, and returns the kinds that are not gone yet.
func (r *Reconciler) removeKinds(ctx context.Context, driverName string) (left []string, err error) {
	for _, gvk := range kindsOf(driverName) {
		crd, err := r.crd(ctx, gvk)
		if err != nil {
			return nil, err
		}
		if crd == nil || crd.Labels[rkev1.NodeDriverLabel] != driverName {
			continue
		}
		left = append(left, gvk.Kind)
		if !crd.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.opts.Client.Delete(ctx, crd); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("deleting the CRD of %s: %w", gvk.Kind, err)
		}
	}
	return left, nil
}

// reappear creates a deleted predefined NodeDriver again: it can be made inactive, not removed. It
// is inactive and otherwise has its predefined content, because a user deleted it.
func (r *Reconciler) reappear(ctx context.Context, name string) error {
	for _, nd := range driver.Predefined() {
		if nd.Name != name {
			continue
		}
		nd.Spec.Active = false
		_, err := r.applier.Create(ctx, &nd)
		// While the CRD of NodeDrivers is being deleted, none can be created.
		if err == nil || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("creating the predefined NodeDriver %s again: %w", name, err)
	}
	return nil
}
