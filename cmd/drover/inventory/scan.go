package inventory

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

var serverScans = rkev1.GroupVersion.WithResource("serverscans")

// errScanGone means that somebody deleted a ServerScan before it was done.
var errScanGone = errors.New("the ServerScan was deleted before it was done")

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
	return scan, decode(made, scan)
}

// AwaitScan waits until a ServerScan is done, for better or worse; it tells each change of what the scan waits for.
func (a *API) AwaitScan(ctx context.Context, scan *rkev1.ServerScan, tell func(message string)) (*rkev1.ServerScan, error) {
	client := a.Dynamic.Resource(serverScans).Namespace(scan.Namespace)
	told := ""
	for ctx.Err() == nil {
		changes, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", scan.Name).String()})
		if err != nil {
			return nil, fmt.Errorf("watching ServerScan %s: %w", scan.Name, err)
		}
		done, err := followScan(ctx, client, scan.Name, changes, func(message string) {
			if message != told {
				told = message
				tell(message)
			}
		})
		changes.Stop()
		if done != nil || err != nil {
			return done, err
		}
	}
	return nil, context.Cause(ctx)
}

// followScan returns nil and no error when the server ends the watch, as it does now and then.
func followScan(ctx context.Context, client dynamic.ResourceInterface, name string, changes watch.Interface, tell func(string)) (*rkev1.ServerScan, error) {
	live, err := client.Get(ctx, name, metav1.GetOptions{})
	for {
		if apierrors.IsNotFound(err) {
			return nil, errScanGone
		}
		if err != nil {
			return nil, fmt.Errorf("reading ServerScan %s: %w", name, err)
		}
		scan := &rkev1.ServerScan{}
		if err := decode(live, scan); err != nil {
			return nil, err
		}
		condition := meta.FindStatusCondition(scan.Status.Conditions, rkev1.ScanDoneCondition)
		switch {
		case condition == nil:
		case condition.Status != metav1.ConditionUnknown:
			return scan, nil
		default:
			tell(condition.Message)
		}
		event, open := <-changes.ResultChan()
		if !open {
			return nil, nil
		}
		if event.Type == watch.Deleted {
			return nil, errScanGone
		}
		live, err = client.Get(ctx, name, metav1.GetOptions{})
	}
}

// DeleteScan deletes a ServerScan, and with it what it still does.
func (a *API) DeleteScan(ctx context.Context, scan *rkev1.ServerScan) error {
	err := a.Dynamic.Resource(serverScans).Namespace(scan.Namespace).Delete(ctx, scan.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &scan.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting ServerScan %s: %w", scan.Name, err)
	}
	return nil
}
