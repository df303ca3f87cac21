package apply

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// HashAnnotation on an applied object is a hash of the applied content. Without it, the removal of
// a field from the desired object would go unnoticed, because the rest of the desired content still
// matches.
const HashAnnotation = "drover.cattle.io/applied-hash"

// Applier applies objects for one field owner.
type Applier struct {
	// Client writes.
	Client client.Client
	// Reader reads live: a stale cache would revert concurrent changes.
	Reader client.Reader
	// Owner is the field owner.
	Owner string
	// Check runs before an existing object is overwritten. Its error is returned, and nothing is
	// written. Without it, every object may be overwritten.
	Check func(ctx context.Context, live client.Object) error
}

// Apply applies obj unless the live object matches it, and reports whether it wrote. Fields of
// other owners stay, except those that obj names. An immutable Secret or ConfigMap is replaced.
func (a Applier) Apply(ctx context.Context, obj client.Object) (bool, error) {
	desired, err := a.desired(obj)
	if err != nil {
		return false, err
	}
	return a.change(ctx, desired)
}

// change applies desired unless the live object matches it.
func (a Applier) change(ctx context.Context, desired *unstructured.Unstructured) (bool, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	err := a.Reader.Get(ctx, client.ObjectKeyFromObject(desired), live)
	if err == nil && contains(live.Object, desired.Object) {
		return false, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s %s: %w", desired.GetKind(), desired.GetName(), err)
	}
	if err == nil && a.Check != nil {
		if err := a.Check(ctx, live); err != nil {
			return false, err
		}
	}
	if immutable, _, _ := unstructured.NestedBool(live.Object, "immutable"); err == nil && immutable {
		return true, a.replace(ctx, live, desired)
	}
	return true, a.write(ctx, desired)
}

// replace deletes live and creates desired. The API server rejects other data for an immutable
// Secret or ConfigMap.
func (a Applier) replace(ctx context.Context, live, desired *unstructured.Unstructured) error {
	uid := live.GetUID()
	if err := a.Client.Delete(ctx, live, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the immutable %s %s: %w", desired.GetKind(), desired.GetName(), err)
	}
	if err := a.Client.Create(ctx, desired, client.FieldOwner(a.Owner)); err != nil {
		return fmt.Errorf("creating %s %s: %w", desired.GetKind(), desired.GetName(), err)
	}
	return nil
}

// Write applies objs concurrently without reading the live objects: for objects that the caller has
// read, at one request each instead of two. Each object then has the UID of the written one. If
// several fail, Write returns the first object's error.
func (a Applier) Write(ctx context.Context, objs ...client.Object) error {
	return a.each(objs, func(desired *unstructured.Unstructured) error { return a.write(ctx, desired) })
}

// Add creates objs concurrently: new objects cost one request each. Existing ones are applied as by
// Apply. If several fail, Add returns the first object's error.
func (a Applier) Add(ctx context.Context, objs ...client.Object) error {
	return a.each(objs, func(desired *unstructured.Unstructured) error {
		err := a.Client.Create(ctx, desired.DeepCopy(), client.FieldOwner(a.Owner))
		if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) && a.exists(ctx, desired) {
			_, err = a.change(ctx, desired)
			return err
		}
		if err != nil {
			return fmt.Errorf("creating %s %s: %w", desired.GetKind(), desired.GetName(), err)
		}
		return nil
	})
}

// exists reports whether the object of this name exists. A quota that is used up rejects the
// creation of existing objects, too: the API server checks quotas first.
func (a Applier) exists(ctx context.Context, desired *unstructured.Unstructured) bool {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	return a.Reader.Get(ctx, client.ObjectKeyFromObject(desired), live) == nil
}

// Compare compares obj with live, which the caller has read. same is true if applying obj would
// change nothing. reverts is true if applying obj would undo another writer's change: this content
// was applied before.
func (a Applier) Compare(live, obj client.Object) (same, reverts bool, err error) {
	desired, err := a.desired(obj)
	if err != nil {
		return false, false, err
	}
	has, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, false, fmt.Errorf("converting %s %s: %w", desired.GetKind(), desired.GetName(), err)
	}
	content := desired.Object
	reverts = desired.GetAnnotations()[HashAnnotation] == live.GetAnnotations()[HashAnnotation]
	// A typed object that was read has no kind.
	delete(content, "apiVersion")
	delete(content, "kind")
	same = contains(has, content)
	return same, reverts && !same, nil
}

// Overwrite applies obj without reading the live object, and returns the stored object.
func (a Applier) Overwrite(ctx context.Context, obj client.Object) (client.Object, error) {
	desired, err := a.desired(obj)
	if err != nil {
		return nil, err
	}
	if err := a.write(ctx, desired); err != nil {
		return nil, err
	}
	return desired, nil
}

func (a Applier) each(objs []client.Object, do func(desired *unstructured.Unstructured) error) error {
	errs := make([]error, len(objs))
	var all sync.WaitGroup
	for i, obj := range objs {
		all.Go(func() {
			desired, err := a.desired(obj)
			if err == nil {
				err = do(desired)
			}
			if errs[i] = err; err == nil {
				obj.SetUID(desired.GetUID())
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

func (a Applier) write(ctx context.Context, desired *unstructured.Unstructured) error {
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), client.FieldOwner(a.Owner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", desired.GetKind(), desired.GetName(), err)
	}
	return nil
}

// All applies objs in their order and returns the number of writes.
func (a Applier) All(ctx context.Context, objs ...client.Object) (int, error) {
	wrote := 0
	for _, obj := range objs {
		changed, err := a.Apply(ctx, obj)
		if err != nil {
			return wrote, err
		}
		if changed {
			wrote++
		}
	}
	return wrote, nil
}

// Create creates obj unless an object of its name exists, and reports whether it did. It does not
// change an existing object.
func (a Applier) Create(ctx context.Context, obj client.Object) (bool, error) {
	live := &unstructured.Unstructured{}
	gvk, err := apiutil.GVKForObject(obj, a.Client.Scheme())
	if err != nil {
		return false, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	live.SetGroupVersionKind(gvk)
	err = a.Reader.Get(ctx, client.ObjectKeyFromObject(obj), live)
	if err == nil {
		return false, nil
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	err = a.Client.Create(ctx, obj, client.FieldOwner(a.Owner))
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	return true, nil
}

// desired returns obj as it is sent: with its kind and hash, without its status and without empty
// fields.
func (a Applier) desired(obj client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(obj, a.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	content = runtime.DeepCopyJSON(content)
	delete(content, "status")
	prune(content)
	out := &unstructured.Unstructured{Object: content}
	out.SetGroupVersionKind(gvk)
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	annotations := out.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	sum := sha256.Sum256(raw)
	annotations[HashAnnotation] = hex.EncodeToString(sum[:8])
	out.SetAnnotations(annotations)
	return out, nil
}

// prune drops nulls, which typed objects have for unset fields, such as the creation time.
func prune(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if item == nil {
				delete(v, key)
				continue
			}
			prune(item)
		}
	case []any:
		for _, item := range v {
			prune(item)
		}
	}
}
