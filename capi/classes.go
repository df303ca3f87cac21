package capi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// maxVariables bounds the variables of a Cluster, and the defaults of a ClusterClass, in bytes: templates repeat them.
const maxVariables = 32 << 10

// errClass is the answer about a class that may not be used, be it there or not.
var errClass = errors.New("there is no such ClusterClass for this namespace: use one of its own, or have the class's owner list the namespace in its annotation " +
	rkev1.AllowedNamespacesAnnotation)

// checkClass reports with errClass that a Cluster names the ClusterClass of another namespace, which does not list the Cluster's. What a class
// names is copied into the Cluster's namespace, with the tokens and user data in it.
func checkClass(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) error {
	key := cluster.GetClassKey()
	if key.Name == "" || key.Namespace == cluster.Namespace {
		return nil
	}
	class := &clusterv1.ClusterClass{}
	if err := reader.Get(ctx, key, class); apierrors.IsNotFound(err) {
		return errClass
	} else if err != nil {
		return fmt.Errorf("reading the ClusterClass: %w", err)
	}
	for allowed := range strings.SplitSeq(class.Annotations[rkev1.AllowedNamespacesAnnotation], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == "*" || allowed == cluster.Namespace {
			return nil
		}
	}
	return errClass
}

// checkVariables bounds what templates are given.
func checkVariables(cluster *clusterv1.Cluster) error {
	size := 0
	for _, variable := range cluster.Spec.Topology.Variables {
		size += len(variable.Value.Raw)
	}
	overrides := func(variables []clusterv1.ClusterVariable) {
		for _, variable := range variables {
			size += len(variable.Value.Raw)
		}
	}
	overrides(cluster.Spec.Topology.ControlPlane.Variables.Overrides)
	for _, workers := range cluster.Spec.Topology.Workers.MachineDeployments {
		overrides(workers.Variables.Overrides)
	}
	if size > maxVariables {
		return fmt.Errorf("spec.topology: the variables have more than %d KiB", maxVariables>>10)
	}
	return nil
}

// checkObject refuses templates that are not executed.
func checkObject(obj runtime.Object) error {
	if class, ok := obj.(*clusterv1.ClusterClass); ok {
		size := 0
		for _, variable := range class.Spec.Variables {
			if variable.Schema.OpenAPIV3Schema.Default != nil {
				size += len(variable.Schema.OpenAPIV3Schema.Default.Raw)
			}
		}
		if size > maxVariables {
			return fmt.Errorf("spec.variables: the defaults have more than %d KiB", maxVariables>>10)
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	return checkTemplates("spec", content["spec"])
}

// topologyClient is what the controller of managed topologies reads with. A Cluster whose class it may not use has no topology there, so
// that nothing is done with it, and an event says why; a class with templates that are not executed cannot be read. Admission refuses both, but
// objects may be older than this manager.
type topologyClient struct {
	client.Client
	recorder events.EventRecorder
}

// ClassRefusedReason is the reason of the event about a Cluster whose ClusterClass it may not use.
const ClassRefusedReason = "ClusterClassRefused"

// Get implements client.Reader.
func (c topologyClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	switch read := obj.(type) {
	case *clusterv1.Cluster:
		err := errors.Join(checkClass(ctx, c.Client, read), checkVariables(read))
		if errors.Is(err, errClass) {
			c.recorder.Eventf(read, nil, corev1.EventTypeWarning, ClassRefusedReason, "Reconcile", "spec.topology.classRef: %s. The Cluster is left as it is.", errClass)
			read.Spec.Topology = clusterv1.Topology{}
			return nil
		}
		return err
	case *clusterv1.ClusterClass:
		return checkObject(read)
	}
	return nil
}

// namingClient is what the controllers read with that make names by a template.
type namingClient struct{ client.Client }

// Get implements client.Reader.
func (c namingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	switch read := obj.(type) {
	case *clusterv1.MachineSet, *clusterv1.MachineDeployment:
		return checkObject(read)
	}
	return nil
}

// classUsers lists a class's Clusters without those that may not use it: nobody keeps another's class from being deleted.
type classUsers struct{ client.Reader }

// List implements client.Reader.
func (c classUsers) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	clusters, ok := list.(*clusterv1.ClusterList)
	if !ok {
		return nil
	}
	clusters.Items = slices.DeleteFunc(clusters.Items, func(cluster clusterv1.Cluster) bool {
		return errors.Is(checkClass(ctx, c.Reader, &cluster), errClass)
	})
	return nil
}
