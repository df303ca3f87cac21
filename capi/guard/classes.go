package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

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
	if !rkev1.Allows(class, cluster.Namespace) {
		return errClass
	}
	return nil
}

// variablesOf are all that a Cluster gives.
func variablesOf(cluster *clusterv1.Cluster) []clusterv1.ClusterVariable {
	out := append(slices.Clone(cluster.Spec.Topology.Variables), cluster.Spec.Topology.ControlPlane.Variables.Overrides...)
	for _, workers := range cluster.Spec.Topology.Workers.MachineDeployments {
		out = append(out, workers.Variables.Overrides...)
	}
	return out
}

// checkVariables bounds what templates are given, what it costs to compare it with the class's patterns, and what is made of all.
func checkVariables(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) error {
	size := 0
	for _, variable := range variablesOf(cluster) {
		size += len(variable.Value.Raw)
	}
	if size > maxVariables {
		return fmt.Errorf("spec.topology: the variables have more than %d KiB", maxVariables>>10)
	}
	// What it costs to compare the variables with their patterns.
	sizes := map[string]int{}
	for name, schema := range discovered(class) {
		sizes[name] = max(sizes[name], matching(schema))
	}
	steps := 0
	for _, variable := range variablesOf(cluster) {
		if steps += sizes[variable.Name] * len(variable.Value.Raw); steps > maxMatching {
			return fmt.Errorf("spec.topology: variable %s is too long for the patterns of its schema", variable.Name)
		}
	}
	return checkTopology(ctx, reader, cluster, class)
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

// Topology is what the controller of managed topologies reads with. A Cluster whose class it may not use has no topology there, so
// that nothing is done with it, and an event says why; a class with templates that are not executed cannot be read, nor one that makes too much of the
// Cluster: the condition TopologyReconciled says so. Admission refuses all of them, but objects may be older than this manager, or have changed.
type Topology struct {
	client.Client

	recorder events.EventRecorder
	patterns *Patterns
	// clusters that were read last, as reading, by their names.
	clusters *sync.Map
}

// NewTopology makes the reader; recorder tells about a class that is refused, patterns are those of all classes.
func NewTopology(c client.Client, recorder events.EventRecorder, patterns *Patterns) Topology {
	return Topology{Client: c, recorder: recorder, patterns: patterns, clusters: &sync.Map{}}
}

// reading is a reconcile that has read a Cluster, and goes on to read its class.
type reading struct {
	id      types.UID
	cluster *clusterv1.Cluster
}

// ClassRefusedReason is the reason of the event about a Cluster whose ClusterClass it may not use.
const ClassRefusedReason = "ClusterClassRefused"

// Get implements client.Reader.
func (c Topology) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		if _, ok := obj.(*clusterv1.Cluster); ok {
			c.clusters.Delete(key)
		}
		return err
	}
	id := controller.ReconcileIDFromContext(ctx)
	switch read := obj.(type) {
	case *clusterv1.Cluster:
		c.clusters.Delete(key)
		if err := checkClass(ctx, c.Client, read); errors.Is(err, errClass) {
			c.recorder.Eventf(read, nil, corev1.EventTypeWarning, ClassRefusedReason, "Reconcile", "spec.topology.classRef: %s. The Cluster is left as it is.", errClass)
			read.Spec.Topology = clusterv1.Topology{}
		} else if err != nil {
			return err
		}
		if read.Spec.Topology.IsDefined() {
			c.clusters.Store(key, reading{id, read})
		}
	case *clusterv1.ClusterClass:
		if err := c.patterns.checkClassContent(read); err != nil {
			return err
		}
		var err error
		c.clusters.Range(func(name, value any) bool {
			one, _ := value.(reading)
			if one.id != id {
				return true
			}
			c.clusters.Delete(name)
			err = checkVariables(ctx, c.Client, one.cluster, read)
			return false
		})
		return err
	}
	return nil
}

// Naming is what the controllers read with that make names by a template.
type Naming struct{ client.Client }

// Get implements client.Reader.
func (c Naming) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	switch read := obj.(type) {
	case *clusterv1.MachineSet, *clusterv1.MachineDeployment:
		return checkObject(read)
	}
	return nil
}

// ClassUsers lists a class's Clusters without those that may not use it: nobody keeps another's class from being deleted.
type ClassUsers struct{ client.Reader }

// List implements client.Reader.
func (c ClassUsers) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
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
