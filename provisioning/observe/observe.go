// Package observe reads the objects that a rendering of a provisioning Cluster depends on. The
// controller, admission and the command line share it, so that a preview sees what the controller
// sees.
package observe

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/provisioning"
)

// Observer reads the objects of provisioning Clusters.
type Observer struct {
	// Client reads, from its cache if it has one.
	Client client.Client
	// Watch is called with each driver's kind before an object of it is read; optional.
	Watch func(gvk schema.GroupVersionKind) error

	// seen are the objects that one call of Input has read: many pools may name one Config.
	seen map[seenKey]*unstructured.Unstructured
}

// seenKey names an object of a driver's kind.
type seenKey struct {
	gvk  schema.GroupVersionKind
	name string
}

// Belongs reports whether Drover has written an object for the CAPI Cluster: the object names it as
// an owner, or was restored from a backup without owners.
func Belongs(cluster *clusterv1.Cluster, obj client.Object) bool {
	if cluster == nil || !IsRendered(cluster.Name, obj) {
		return false
	}
	owners := obj.GetOwnerReferences()
	for _, owner := range owners {
		if owner.UID == cluster.UID {
			return true
		}
	}
	return len(owners) == 0
}

// IsRendered reports whether Drover has written an object for a Cluster of the name.
func IsRendered(name string, obj client.Object) bool {
	return obj.GetAnnotations()[apply.HashAnnotation] != "" && obj.GetLabels()[rkev1.ClusterNameLabel] == name
}

// Input reads what a rendering of the Cluster depends on. capi is its CAPI Cluster; nil while there
// is none. It fails if an object cannot be read; an object that does not exist is no failure.
func (o Observer) Input(ctx context.Context, cluster *provv1.Cluster, capi *clusterv1.Cluster) (provisioning.Input, error) {
	in := provisioning.Input{Cluster: cluster, Pools: map[string]provisioning.PoolInput{}}
	o.seen = map[seenKey]*unstructured.Unstructured{}
	list := &clusterv1.MachineDeploymentList{}
	if err := o.Client.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels{rkev1.ClusterNameLabel: cluster.Name}); err != nil {
		return in, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	for i := range list.Items {
		one := &list.Items[i]
		pool := one.Labels[rkev1.MachinePoolLabel]
		if Belongs(capi, one) && one.Name == provisioning.Name(cluster.Name, pool) {
			in.Pools[pool] = provisioning.PoolInput{Deployment: one}
		}
	}
	fields := map[schema.GroupVersionKind]map[string]crdgen.Field{}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		pool := &cluster.Spec.RKEConfig.MachinePools[i]
		found, err := o.pool(ctx, cluster, pool, in.Pools[pool.Name])
		if err != nil {
			return in, err
		}
		if found.Config != nil && found.Deployment != nil {
			kind := found.Config.GroupVersionKind()
			if fields[kind] == nil {
				if fields[kind], err = o.fields(ctx, kind); err != nil {
					return in, err
				}
			}
			found.Fields = fields[kind]
		}
		in.Pools[pool.Name] = found
	}
	return in, nil
}

// pool reads the Config and the machine template of a pool.
func (o Observer) pool(ctx context.Context, cluster *provv1.Cluster, pool *provv1.MachinePool, in provisioning.PoolInput) (provisioning.PoolInput, error) {
	if in.Deployment != nil {
		ref := in.Deployment.Spec.Template.Spec.InfrastructureRef
		template, err := o.read(ctx, rkev1.MachineGroupVersion.WithKind(ref.Kind), cluster.Namespace, ref.Name)
		if err != nil {
			return in, err
		}
		in.Template = template
	}
	ref := pool.MachineConfigRef
	config, err := o.read(ctx, rkev1.MachineConfigGroupVersion.WithKind(ref.Kind), cluster.Namespace, ref.Name)
	if err != nil {
		return in, err
	}
	if in.Config, in.Refused = Usable(cluster, pool.Name, ref, config); in.Config == nil {
		return in, nil
	}
	template := rkev1.MachineGroupVersion.WithKind(provisioning.TemplateKind(ref.Kind))
	served, err := o.IsServed(ctx, template)
	if err != nil {
		return in, err
	}
	if !served {
		in.Config, in.Refused = nil, &provisioning.Finding{Pool: pool.Name, Reason: provv1.ConfigMissingReason, Message: fmt.Sprintf(
			"%s %s needs the kind %s, which does not exist: its driver is not ready", ref.Kind, ref.Name, template.Kind), Next: "See the state of the drivers: drover drivers"}
		return in, nil
	}
	in.Inactive, err = o.inactive(ctx, ref.Kind)
	return in, err
}

// inactive returns the name of the NodeDriver that defines a kind of Configs, if it is not active. A
// caller without the right to list NodeDrivers takes every driver for active.
func (o Observer) inactive(ctx context.Context, kind string) (string, error) {
	drivers := &v3.NodeDriverList{}
	if err := o.Client.List(ctx, drivers); err != nil {
		if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err) {
			return "", nil
		}
		return "", fmt.Errorf("listing NodeDrivers: %w", err)
	}
	name := ""
	for i := range drivers.Items {
		driver := &drivers.Items[i]
		if crdgen.KindsOf(driver.DriverName()).Config != kind {
			continue
		}
		if driver.Spec.Active {
			return "", nil
		}
		name = driver.Name
	}
	return name, nil
}

// Usable returns the Config if the Cluster may use it, or else why it may not. The Config is nil if
// it does not exist.
func Usable(cluster *provv1.Cluster, pool string, ref provv1.ConfigReference, config *unstructured.Unstructured) (*unstructured.Unstructured, *provisioning.Finding) {
	if config == nil {
		return nil, &provisioning.Finding{Pool: pool, Reason: provv1.ConfigMissingReason, Message: fmt.Sprintf(
			"%s %s does not exist in namespace %s", ref.Kind, ref.Name, cluster.Namespace), Next: fmt.Sprintf("Create it, or name another Config in machineConfigRef of pool %s: %s", pool, provisioning.EditCommand(cluster))}
	}
	if owner := metav1.GetControllerOf(config); owner != nil && owner.UID != cluster.UID {
		return nil, &provisioning.Finding{Pool: pool, Reason: provv1.ConfigTakenReason, Message: fmt.Sprintf(
			"%s %s belongs to %s %s", ref.Kind, ref.Name, owner.Kind, owner.Name), Next: fmt.Sprintf("Create another Config for this Cluster, and name it in machineConfigRef of pool %s: %s", pool, provisioning.EditCommand(cluster))}
	}
	return config, nil
}

// read reads an object of a driver's kind; nil if it or its kind does not exist.
func (o Observer) read(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	key := seenKey{gvk, name}
	if seen, known := o.seen[key]; known {
		return seen, nil
	}
	obj, err := o.readNew(ctx, gvk, namespace, name)
	if err == nil {
		o.seen[key] = obj
	}
	return obj, err
}

// readNew is read for an object that this call of Input has not read.
func (o Observer) readNew(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if gvk.Kind == "" || name == "" {
		return nil, nil
	}
	served, err := o.IsServed(ctx, gvk)
	if err != nil || !served {
		return nil, err
	}
	if o.Watch != nil {
		if err := o.Watch(gvk); err != nil {
			return nil, err
		}
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	err = o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, name, err)
	}
	return obj, nil
}

// IsServed reports whether the API server serves a driver's kind. The manager's cache has the CRDs of
// drivers. A mapper would ask the API server for each unknown kind that a user writes, and a cache
// would wait for a kind that is not served.
func (o Observer) IsServed(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	crd, err := o.definition(ctx, gvk)
	if crd == nil || err != nil {
		return false, err
	}
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	}), nil
}

// fields reads the options of a Config's driver. They are empty for a CRD that Drover did not make.
func (o Observer) fields(ctx context.Context, gvk schema.GroupVersionKind) (map[string]crdgen.Field, error) {
	crd, err := o.definition(ctx, gvk)
	if crd == nil || err != nil {
		return nil, err
	}
	list, err := crdgen.FieldsFromCRD(crd)
	if err != nil {
		return nil, nil //nolint:nilerr // without the fields, values are not shown, and no default is known
	}
	fields := make(map[string]crdgen.Field, len(list))
	for _, field := range list {
		fields[field.Name] = field
	}
	return fields, nil
}

// definition reads the CRD of a kind; nil if there is none.
func (o Observer) definition(ctx context.Context, gvk schema.GroupVersionKind) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := o.Client.Get(ctx, client.ObjectKey{Name: crdgen.CRDName(gvk.Group, gvk.Kind)}, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("finding the kind %s: %w", gvk.Kind, err)
	}
	return crd, nil
}
