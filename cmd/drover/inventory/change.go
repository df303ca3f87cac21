package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// scaleAttempts bounds how often a write is repeated that lost against another one.
const scaleAttempts = 10

// Scale sets the number of machines of pools of a provisioning Cluster, in one write. If another
// write comes between, Scale reads the Cluster again and repeats its own, unless the other changed
// the number of machines of the same pools.
func (a *API) Scale(ctx context.Context, namespace, name string, wanted []facts.Quantity, dryRun bool) ([]facts.QuantityChange, *provv1.Cluster, error) {
	options := metav1.UpdateOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	var first []facts.QuantityChange
	for range scaleAttempts {
		u, err := a.object(ctx, provisioned, namespace, name)
		switch {
		case err != nil:
			return nil, nil, err
		case u == nil:
			return nil, nil, fmt.Errorf("the Cluster %s is gone", name)
		case u.GetDeletionTimestamp() != nil:
			return nil, nil, fmt.Errorf("the Cluster %s is being deleted", name)
		}
		changes, err := facts.SetQuantities(u.Object, wanted)
		if err != nil {
			return nil, nil, err
		}
		for i, change := range first {
			if changes[i].From != change.From {
				return nil, nil, fmt.Errorf("pool %s was scaled from %d to %d machines in the meantime; nothing was changed", change.Pool, change.From, changes[i].From)
			}
		}
		if !slices.ContainsFunc(changes, func(c facts.QuantityChange) bool { return c.From != c.To }) {
			cluster, err := decodeCluster(u)
			return changes, cluster, err
		}
		first = changes
		written, err := a.Dynamic.Resource(provisioned).Namespace(namespace).Update(ctx, u, options)
		if err == nil {
			cluster, err := decodeCluster(written)
			return changes, cluster, err
		}
		if !apierrors.IsConflict(err) {
			return nil, nil, fmt.Errorf("scaling the Cluster %s: %w", name, err)
		}
	}
	return nil, nil, errors.New("scaling the Cluster " + name + ": other writes changed it each time; try again")
}

// DeleteCluster requests the deletion of a provisioning Cluster. The Cluster must still be the one
// that was read, not another of its name.
func (a *API) DeleteCluster(ctx context.Context, cluster *provv1.Cluster) error {
	err := a.Dynamic.Resource(provisioned).Namespace(cluster.Namespace).Delete(ctx, cluster.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(cluster.UID))})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("the Cluster %s was deleted and created again in the meantime; nothing was deleted", cluster.Name)
	case err != nil:
		return fmt.Errorf("deleting the Cluster %s: %w", cluster.Name, err)
	}
	return nil
}

// ConfigSchema reads the OpenAPI document of the Configs of all drivers. Every user may read it.
func (a *API) ConfigSchema(ctx context.Context) ([]byte, error) {
	raw, err := a.Kube.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/"+rkev1.MachineConfigGroupVersion.String()).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, errors.New("this cluster has no Config of any driver: activate a NodeDriver first")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema of the drivers' options: %w", err)
	}
	return raw, nil
}

// ConfigKinds lists the kinds of Configs that the API server serves.
func (a *API) ConfigKinds(ctx context.Context) ([]string, error) {
	list := &metav1.APIResourceList{}
	err := a.Kube.Discovery().RESTClient().Get().AbsPath("/apis/" + rkev1.MachineConfigGroupVersion.String()).Do(ctx).Into(list)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the API for kinds of Configs: %w", err)
	}
	var kinds []string
	for _, r := range list.APIResources {
		if strings.HasSuffix(r.Kind, "Config") && !strings.Contains(r.Name, "/") {
			kinds = append(kinds, r.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds, nil
}

// HasSecret reports whether a Secret exists. The error is of a request that was refused or failed.
func (a *API) HasSecret(ctx context.Context, namespace, name string) (bool, error) {
	secret, err := a.secret(ctx, namespace, name)
	return secret != nil, err
}

// CreateAll creates objects in their order, all or none. Each is tried by a dry run first. If one
// cannot be created afterwards, CreateAll deletes those that it created, also after an interruption.
func (a *API) CreateAll(ctx context.Context, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	for _, object := range objects {
		if _, err := a.create(ctx, object, metav1.DryRunAll); err != nil {
			return nil, fmt.Errorf("nothing was created: %w", err)
		}
	}
	var made []*unstructured.Unstructured
	for _, object := range objects {
		one, err := a.create(ctx, object)
		if err == nil {
			made = append(made, one)
			continue
		}
		if left := a.remove(context.WithoutCancel(ctx), made); len(left) > 0 {
			return nil, fmt.Errorf("%w; these objects were created before and could not be deleted: %s", err, strings.Join(left, ", "))
		}
		return nil, fmt.Errorf("nothing was created: %w", err)
	}
	return made, nil
}

func (a *API) create(ctx context.Context, object *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	made, err := a.Dynamic.Resource(resourceOf(object)).Namespace(object.GetNamespace()).
		Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager, DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		return nil, fmt.Errorf("creating %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return made, nil
}

// remove deletes created objects, the last first, and returns those that remain.
func (a *API) remove(ctx context.Context, made []*unstructured.Unstructured) []string {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	var left []string
	for _, object := range slices.Backward(made) {
		err := a.Dynamic.Resource(resourceOf(object)).Namespace(object.GetNamespace()).
			Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(object.GetUID()))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			left = append(left, Ref(object))
		}
	}
	return left
}

// removeTimeout bounds the deletion of created objects after an interruption.
const removeTimeout = 15 * time.Second

// resourceOf is the resource of a Config or a Cluster. All these kinds have regular plurals.
func resourceOf(object *unstructured.Unstructured) schema.GroupVersionResource {
	return object.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(object.GetKind()) + "s")
}

// Ref names an object for kubectl: <singular>.<group>/<name>.
func Ref(object *unstructured.Unstructured) string {
	return strings.ToLower(object.GetKind()) + "." + object.GroupVersionKind().Group + "/" + object.GetName()
}
