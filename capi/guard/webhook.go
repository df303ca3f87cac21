// Package guard keeps from Cluster API the parts of users' objects that its core would execute,
// expand or follow without a bound: templates of machine names, ClusterResourceSets, references to
// parts of other clusters. It rejects ClusterClasses, which the embedded core does not serve.
//
// It reads the objects that Cluster API's controllers and webhooks read, before they do. It writes
// events about ConfigMaps and Secrets that are not applied.
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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// admissionReads is how long admission waits for kinds that the manager does not watch yet.
const admissionReads = 2 * time.Second

// Path is the path of our webhook that runs before Cluster API's.
const Path = "/guard-cluster-api"

// errTopology is the answer about a ClusterClass, and about a Cluster with a topology.
var errTopology = errors.New("the embedded Cluster API does not serve ClusterClasses: " +
	"write the Cluster without spec.topology, or install the upstream core (clusterctl init) and start the manager with --capi=external")

// Webhook rejects objects that Cluster API's own webhooks and controllers must not see. It changes
// nothing, but it is a mutating webhook, because the API server calls those first and one after
// another.
type Webhook struct {
	// Client reads Clusters.
	Client client.Client
}

var _ admission.Handler = (*Webhook)(nil)

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, request admission.Request) admission.Response {
	obj := map[string]func() runtime.Object{
		"Cluster":           func() runtime.Object { return &clusterv1.Cluster{} },
		"ClusterClass":      func() runtime.Object { return &clusterv1.ClusterClass{} },
		"Machine":           func() runtime.Object { return &clusterv1.Machine{} },
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
		if sameSpec(was, is) {
			return admission.Allowed("")
		}
	}
	if err := w.check(ctx, is, was, request.Namespace); err != nil {
		return admission.Denied(err.Error())
	}
	return admission.Allowed("").WithWarnings(w.missingKinds(was, is)...)
}

// reference is a reference with the name of its field.
type reference struct {
	field string
	clusterv1.ContractVersionedObjectReference
}

// referencesOf returns the references of an object for which Cluster API needs a kind.
func referencesOf(obj runtime.Object) []reference {
	machine := func(field string, spec clusterv1.MachineSpec) []reference {
		return []reference{{field + ".infrastructureRef", spec.InfrastructureRef}, {field + ".bootstrap.configRef", spec.Bootstrap.ConfigRef}}
	}
	switch is := obj.(type) {
	case *clusterv1.Cluster:
		return []reference{{"spec.infrastructureRef", is.Spec.InfrastructureRef}, {"spec.controlPlaneRef", is.Spec.ControlPlaneRef}}
	case *clusterv1.Machine:
		return machine("spec", is.Spec)
	case *clusterv1.MachineSet:
		return machine("spec.template.spec", is.Spec.Template.Spec)
	case *clusterv1.MachineDeployment:
		return machine("spec.template.spec", is.Spec.Template.Spec)
	}
	return nil
}

// missingKinds warns of new references to kinds that the API server does not have. Their provider
// may be installed later.
func (w *Webhook) missingKinds(was, is runtime.Object) []string {
	var warnings []string
	before := referencesOf(was)
	for _, ref := range referencesOf(is) {
		if !ref.IsDefined() || slices.Contains(before, ref) {
			continue
		}
		if _, err := w.Client.RESTMapper().RESTMapping(ref.GroupKind()); meta.IsNoMatchError(err) {
			warnings = append(warnings, fmt.Sprintf("%s: kind %.63s of group %.253s does not exist. Cluster API can neither create nor delete the object until the provider of this kind is installed",
				ref.field, ref.Kind, ref.APIGroup))
		}
	}
	return warnings
}

func (w *Webhook) check(ctx context.Context, obj, was runtime.Object, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, admissionReads)
	defer cancel()
	switch is := obj.(type) {
	case *clusterv1.ClusterClass:
		return errTopology
	case *clusterv1.Cluster:
		is.Namespace = namespace
		if is.Spec.Topology.IsDefined() {
			return fmt.Errorf("spec.topology: %w", errTopology)
		}
		before, _ := was.(*clusterv1.Cluster)
		return checkParts(ctx, w.Client, before, is)
	}
	return checkNaming(obj)
}

// checkParts rejects a new reference to an object that cannot be a part of the Cluster.
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

// checkKind rejects a kind of ours that is another part of a cluster. Cluster API would wait for it
// without end, and could not delete the Cluster.
func checkKind(ref clusterv1.ContractVersionedObjectReference, kind string) error {
	ours := []string{rkev1.GroupVersion.Group, rkev1.MachineGroupVersion.Group, rkev1.MachineConfigGroupVersion.Group}
	if !slices.Contains(ours, ref.APIGroup) || ref.GroupKind() == rkev1.GroupVersion.WithKind(kind).GroupKind() {
		return nil
	}
	return fmt.Errorf("kind %s of group %s is not supported here: name an %s of group %s", ref.Kind, ref.APIGroup, kind, rkev1.GroupVersion.Group)
}

// checkControlPlane rejects a Cluster that names the RKEControlPlane of another Cluster. Cluster
// API would change its labels again and again, and would delete it with either Cluster. A paused
// Cluster is accepted, because it may be moved or restored.
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
			return fmt.Errorf("spec.controlPlaneRef: the RKEControlPlane %s belongs to Cluster %s: give this Cluster its own RKEControlPlane", ref.Name, one.Name)
		}
	}
	return nil
}

// sameSpec reports whether only metadata or status change. Users can change labels, finalizers and
// owners of an object that is rejected today.
func sameSpec(was, is runtime.Object) bool {
	spec := func(obj runtime.Object) any {
		switch o := obj.(type) {
		case *clusterv1.Cluster:
			return o.Spec
		case *clusterv1.ClusterClass:
			return o.Spec
		case *clusterv1.Machine:
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
