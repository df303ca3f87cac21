// Package guard keeps from Cluster API what users write and its core would execute, expand or follow without a bound: templates, variables,
// ClusterResourceSets, ClusterClasses of other namespaces.
//
// It reads: the objects that Cluster API's controllers and webhooks read, before they do. It writes: events that say what was refused.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// admissionReads is how long admission waits for templates that the manager does not watch yet.
const admissionReads = 2 * time.Second

// Path is where our webhook before those of Cluster API listens.
const Path = "/guard-cluster-api"

// Webhook refuses what Cluster API's own webhooks must not see: they would execute a template to validate it, and tell whether the ClusterClass of
// somebody else is there. It changes nothing, but is a mutating webhook, for those are asked first and one after another.
type Webhook struct {
	// Client reads ClusterClasses, and knows which kinds there are.
	Client client.Client
	// Patterns of all classes.
	Patterns *Patterns
}

var _ admission.Handler = (*Webhook)(nil)

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, request admission.Request) admission.Response {
	obj := map[string]func() runtime.Object{
		"Cluster":           func() runtime.Object { return &clusterv1.Cluster{} },
		"ClusterClass":      func() runtime.Object { return &clusterv1.ClusterClass{} },
		"MachineDeployment": func() runtime.Object { return &clusterv1.MachineDeployment{} },
		"MachineSet":        func() runtime.Object { return &clusterv1.MachineSet{} },
	}[request.Kind.Kind]
	if obj == nil {
		return admission.Allowed("")
	}
	is, was := obj(), obj()
	if err := json.Unmarshal(request.Object.Raw, is); err != nil {
		return admission.Errored(http.StatusBadRequest, errors.New("the object cannot be read"))
	}
	if len(request.OldObject.Raw) > 0 {
		if err := json.Unmarshal(request.OldObject.Raw, was); err != nil {
			return admission.Errored(http.StatusBadRequest, errors.New("the old object cannot be read"))
		}
	}
	var err error
	if len(request.OldObject.Raw) == 0 || !sameSpec(was, is) {
		err = w.check(ctx, is, was, request.Namespace)
	} else if class, ok := is.(*clusterv1.ClusterClass); ok {
		// Cluster API compiles the schemas of a class again when only its metadata or status change.
		_, err = checkSchemas(class)
	}
	if errors.Is(err, errClass) {
		err = fmt.Errorf("spec.topology.classRef: %w", errClass)
	}
	if err != nil {
		return admission.Denied(err.Error())
	}
	if class, ok := is.(*clusterv1.ClusterClass); ok && !sameSpec(was, is) {
		return admission.Allowed("").WithWarnings(missingKind(class, w.Client.RESTMapper())...)
	}
	return admission.Allowed("")
}

// missingKind warns of the first kind that a class names and that is not there: Cluster API tells its own log alone. It may come, as a driver's do, so the
// class is not refused.
func missingKind(class *clusterv1.ClusterClass, mapper meta.RESTMapper) []string {
	spec := class.Spec
	refs := []clusterv1.ClusterClassTemplateReference{spec.Infrastructure.TemplateRef, spec.ControlPlane.TemplateRef, spec.ControlPlane.MachineInfrastructure.TemplateRef}
	for _, workers := range spec.Workers.MachineDeployments {
		refs = append(refs, workers.Bootstrap.TemplateRef, workers.Infrastructure.TemplateRef)
	}
	for _, ref := range refs {
		if _, err := mapper.RESTMapping(ref.GroupVersionKind().GroupKind(), ref.GroupVersionKind().Version); ref.IsDefined() && meta.IsNoMatchError(err) {
			return []string{fmt.Sprintf("the ClusterClass names a kind that is not there, %s of %s: until it is, no Cluster is made of this class", ref.Kind, ref.APIVersion)}
		}
	}
	return nil
}

// admissionReader reads what can be read. What cannot has no weight here, for the controller asks again.
type admissionReader struct{ client.Reader }

// Get implements client.Reader.
func (r admissionReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, obj, opts...); err != nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return nil
}

func (w *Webhook) check(ctx context.Context, obj, was runtime.Object, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, admissionReads)
	defer cancel()
	switch is := obj.(type) {
	case *clusterv1.Cluster:
		is.Namespace = namespace
		if err := checkClass(ctx, w.Client, is); err != nil {
			return err
		}
		if before, ok := was.(*clusterv1.Cluster); ok {
			if err := checkParts(ctx, w.Client, before, is); err != nil {
				return err
			}
		}
		if !is.Spec.Topology.IsDefined() {
			return nil
		}
		class := &clusterv1.ClusterClass{}
		if err := w.Client.Get(ctx, is.GetClassKey(), class); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the ClusterClass: %w", err)
		}
		return checkVariables(ctx, admissionReader{w.Client}, is, class)
	case *clusterv1.ClusterClass:
		is.Namespace = namespace
		if err := w.Patterns.checkClassContent(is); err != nil {
			return err
		}
		return checkTopology(ctx, admissionReader{w.Client}, &clusterv1.Cluster{}, is)
	}
	return checkObject(obj)
}

// checkParts refuses what a Cluster newly names and can never be a part of it.
func checkParts(ctx context.Context, reader client.Reader, before, is *clusterv1.Cluster) error {
	infrastructure, controlPlane := is.Spec.InfrastructureRef, is.Spec.ControlPlaneRef
	if before.Spec.InfrastructureRef != infrastructure {
		if err := checkKind(infrastructure, "RKECluster"); err != nil {
			return fmt.Errorf("spec.infrastructureRef: %w", err)
		}
	}
	if before.Spec.ControlPlaneRef == controlPlane {
		return nil
	}
	if err := checkKind(controlPlane, "RKEControlPlane"); err != nil {
		return fmt.Errorf("spec.controlPlaneRef: %w", err)
	}
	return checkControlPlane(ctx, reader, is)
}

// checkKind refuses a kind of ours that is another part of a cluster: Cluster API would wait for it for ever, and could not delete the Cluster either.
func checkKind(ref clusterv1.ContractVersionedObjectReference, kind string) error {
	ours := []string{rkev1.GroupVersion.Group, rkev1.MachineGroupVersion.Group, rkev1.MachineConfigGroupVersion.Group}
	if !slices.Contains(ours, ref.APIGroup) || ref.GroupKind() == rkev1.GroupVersion.WithKind(kind).GroupKind() {
		return nil
	}
	return fmt.Errorf("kind %s of group %s does not fit here: name an %s of group %s", ref.Kind, ref.APIGroup, kind, rkev1.GroupVersion.Group)
}

// checkControlPlane refuses a Cluster that names the RKEControlPlane of another: Cluster API would label it in turn for one and for the other, for ever, and delete it
// with either of them. One that is paused may be moved or restored.
func checkControlPlane(ctx context.Context, reader client.Reader, is *clusterv1.Cluster) error {
	ref := is.Spec.ControlPlaneRef
	if ref.Kind != "RKEControlPlane" || ref.APIGroup != rkev1.GroupVersion.Group || ptr.Deref(is.Spec.Paused, false) {
		return nil
	}
	others := &clusterv1.ClusterList{}
	if err := reader.List(ctx, others, client.InNamespace(is.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("reading the Clusters: %w", err)
	}
	for i := range others.Items {
		if one := &others.Items[i]; one.Name != is.Name && one.Spec.ControlPlaneRef == ref {
			return fmt.Errorf("spec.controlPlaneRef: the RKEControlPlane %s is that of Cluster %s: give this Cluster one of its own", ref.Name, one.Name)
		}
	}
	return nil
}

// sameSpec reports whether only metadata or status change: labels, finalizers and owners of what is refused today can be changed.
func sameSpec(was, is runtime.Object) bool {
	spec := func(obj runtime.Object) any {
		switch o := obj.(type) {
		case *clusterv1.Cluster:
			return o.Spec
		case *clusterv1.ClusterClass:
			return o.Spec
		case *clusterv1.MachineDeployment:
			return o.Spec
		case *clusterv1.MachineSet:
			return o.Spec
		}
		return nil
	}
	return equality.Semantic.DeepEqual(spec(was), spec(is))
}
