package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// guardPath is where our webhook before those of Cluster API listens.
const guardPath = "/guard-cluster-api"

// guard refuses what Cluster API's own webhooks must not see: they would execute a template to validate it, and tell whether the ClusterClass of
// somebody else is there. It changes nothing, but is a mutating webhook, for those are asked first and one after another.
type guard struct{ reader client.Reader }

var _ admission.Handler = (*guard)(nil)

// Handle implements admission.Handler.
func (g *guard) Handle(ctx context.Context, request admission.Request) admission.Response {
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
		if sameSpec(was, is) {
			return admission.Allowed("")
		}
	}
	err := checkObject(is)
	if cluster, ok := is.(*clusterv1.Cluster); ok {
		cluster.Namespace = request.Namespace
		err = errors.Join(checkClass(ctx, g.reader, cluster), checkVariables(cluster))
	}
	if errors.Is(err, errClass) {
		err = fmt.Errorf("spec.topology.classRef: %w", errClass)
	}
	if err != nil {
		return admission.Denied(err.Error())
	}
	return admission.Allowed("")
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
