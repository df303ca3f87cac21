package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

var serverScans = rkev1.GroupVersion.WithResource("serverscans")

// MakeScan asks the manager to look for servers.
func (a *API) MakeScan(ctx context.Context, namespace string, spec rkev1.ServerScanSpec) (*rkev1.ServerScan, error) {
	scan := &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "gc-"}, Spec: spec}
	scan.SetGroupVersionKind(rkev1.GroupVersion.WithKind("ServerScan"))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scan)
	if err != nil {
		return nil, fmt.Errorf("encoding a ServerScan: %w", err)
	}
	delete(content, "status")
	made, err := a.Dynamic.Resource(serverScans).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("this cluster has no ServerScan kind: its Drover is older than this drover, or not installed")
	}
	if err != nil {
		return nil, fmt.Errorf("making a ServerScan: %w", err)
	}
	asked, err := decode[rkev1.ServerScan](made)
	return &asked, err
}

// scanInterval is how often is looked how far a scan is.
const scanInterval = 500 * time.Millisecond

// AwaitScan waits until a ServerScan succeeds or fails; it reports each change of the reason why
// the scan waits.
func (a *API) AwaitScan(ctx context.Context, scan *rkev1.ServerScan, tell func(message string)) (*rkev1.ServerScan, error) {
	for told := ""; ; {
		live, err := get[rkev1.ServerScan](ctx, a, serverScans, scan.Namespace, scan.Name)
		if deadline, bounded := ctx.Deadline(); err != nil && bounded && !time.Now().Before(deadline) {
			<-ctx.Done() // at once: the client's rate limiter sees the deadline pass first
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		case live == nil:
			return nil, errors.New("the ServerScan was deleted before it was done")
		}
		switch done := meta.FindStatusCondition(live.Status.Conditions, rkev1.ScanDoneCondition); {
		case done == nil:
		case done.Status != metav1.ConditionUnknown:
			return live, nil
		case done.Message != told:
			told = done.Message
			tell(told)
		}
		select {
		case <-ctx.Done():
		case <-time.After(scanInterval):
		}
	}
}

// DeleteScan deletes a ServerScan, which stops its work.
func (a *API) DeleteScan(ctx context.Context, scan *rkev1.ServerScan) error {
	err := a.Dynamic.Resource(serverScans).Namespace(scan.Namespace).Delete(ctx, scan.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &scan.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ServerScan %s: %w", scan.Name, err)
	}
	return nil
}
