package inventory

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/cmd/drover/facts"
)

const (
	// managerNamespace and managerLease name the Lease of the leading manager (charts, cmd/manager).
	managerNamespace, managerLease = "drover-system", "drover-manager"
	// managerVersionLabel is the label of the Lease that holds the manager's version.
	managerVersionLabel = "app.kubernetes.io/version"
	// renewed is the age of a Lease that proves a running manager: managers renew it every two
	// seconds.
	renewed = 5 * time.Second
)

// Manager reads the state of Drover's manager from its Lease. A Lease that looks old is watched for
// patience, because the clocks of this computer and the manager may differ. It returns nil without
// an error if the user may not read the Lease.
func (a *API) Manager(ctx context.Context, now time.Time, patience time.Duration) (*facts.Manager, error) {
	lease, err := a.managerLease(ctx)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if lease == nil {
		return &facts.Manager{Namespace: managerNamespace}, nil
	}
	m := &facts.Manager{Namespace: lease.Namespace, Version: lease.Labels[managerVersionLabel]}
	if lease.Spec.RenewTime != nil {
		m.Seen = lease.Spec.RenewTime.Time
	}
	age := now.Sub(m.Seen)
	held := ptr.Deref(lease.Spec.HolderIdentity, "") != ""
	if held && age >= 0 && age < renewed {
		m.Running = true
		return m, nil
	}
	m.Running, err = a.leaseRenewed(ctx, lease, patience)
	return m, err
}

// managerLease finds the manager's Lease in any namespace, or in managerNamespace if the user
// cannot list Leases; it returns nil if it finds none.
func (a *API) managerLease(ctx context.Context) (*coordinationv1.Lease, error) {
	leases := a.Kube.CoordinationV1()
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, managerLease).String()}
	list, err := leases.Leases(metav1.NamespaceAll).List(ctx, byName)
	if err == nil {
		return newest(list.Items), nil
	}
	if !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("listing Leases named %s: %w", managerLease, err)
	}
	lease, err := leases.Leases(managerNamespace).Get(ctx, managerLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting Lease %s/%s: %w", managerNamespace, managerLease, err)
	}
	return lease, nil
}

// newest returns the Lease that was renewed last; nil if the list is empty.
func newest(leases []coordinationv1.Lease) *coordinationv1.Lease {
	var last *coordinationv1.Lease
	for i := range leases {
		if last == nil || renewTime(last).Before(renewTime(&leases[i])) {
			last = &leases[i]
		}
	}
	return last
}

func renewTime(lease *coordinationv1.Lease) time.Time {
	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
}

// leaseRenewed reports whether a manager renews a Lease within patience.
func (a *API) leaseRenewed(ctx context.Context, lease *coordinationv1.Lease, patience time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	changes, err := a.Kube.CoordinationV1().Leases(lease.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, lease.Name).String(),
		ResourceVersion: lease.ResourceVersion,
	})
	if ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("watching Lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	defer changes.Stop()
	for event := range changes.ResultChan() {
		seen, ok := event.Object.(*coordinationv1.Lease)
		if ok && ptr.Deref(seen.Spec.HolderIdentity, "") != "" && renewTime(seen).After(renewTime(lease)) {
			return true, nil
		}
	}
	return false, nil
}
