package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
)

// RenderedPath is the path of the webhook Rendered.
const RenderedPath = "/validate-drover-rendered"

// Rendered is the webhook for the deletion of objects that a provisioning Cluster renders. Their
// deletion would delete servers that the Cluster then creates again.
type Rendered struct {
	// Reader reads provisioning and CAPI Clusters. A cache may lag behind: a deletion that is rejected
	// too early is tried again by its controller.
	Reader client.Reader
}

var _ admission.Handler = (*Rendered)(nil)

// controllers of Kubernetes that delete objects after the decision of another.
const (
	garbageCollector    = "system:serviceaccount:kube-system:generic-garbage-collector"
	namespaceController = "system:serviceaccount:kube-system:namespace-controller"
)

// rendered returns the webhook's configuration.
func (t Target) rendered() admissionregistrationv1.ValidatingWebhook {
	deletes := []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	hook := t.validating("rendered.drover.cattle.io", RenderedPath, admissionregistrationv1.RuleWithOperations{
		Operations: deletes,
		Rule: admissionregistrationv1.Rule{APIGroups: []string{clusterv1.GroupVersion.Group}, APIVersions: []string{clusterv1.GroupVersion.Version},
			Resources: []string{"clusters", "machinedeployments", "machinehealthchecks"}},
	})
	hook.Rules = append(hook.Rules, admissionregistrationv1.RuleWithOperations{
		Operations: deletes,
		Rule: admissionregistrationv1.Rule{APIGroups: []string{rkev1.GroupVersion.Group}, APIVersions: []string{"*"},
			Resources: []string{"rkeclusters", "rkecontrolplanes", "rkebootstraptemplates"}, Scope: new(admissionregistrationv1.AllScopes)},
	})
	hook.MatchConditions = append(t.notOurs(), admissionregistrationv1.MatchCondition{
		Name: "rendered",
		Expression: "oldObject.metadata.?labels['" + rkev1.ClusterNameLabel + "'].hasValue() && oldObject.metadata.?annotations['" + apply.HashAnnotation + "'].hasValue() && " +
			"!oldObject.metadata.?annotations['" + deleteForMoveAnnotation + "'].hasValue() && !(request.userInfo.username in ['" + garbageCollector + "', '" + namespaceController + "'])",
	})
	return hook
}

// Handle implements admission.Handler.
func (h *Rendered) Handle(ctx context.Context, req admission.Request) admission.Response {
	obj := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(req.OldObject.Raw, obj); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the object: %w", err))
	}
	cluster := &provv1.Cluster{}
	err := h.Reader.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: obj.Labels[rkev1.ClusterNameLabel]}, cluster)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Allowed("")
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("reading the Cluster: %w", err))
	case !cluster.DeletionTimestamp.IsZero():
		return admission.Allowed("")
	}
	going, err := h.isGoing(ctx, req.Namespace, cluster.Name)
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case going:
		return admission.Allowed("")
	}
	return admission.Denied(fmt.Sprintf("%s %s belongs to the Cluster %s, which would create it again: change or delete the Cluster instead: "+
		"kubectl edit clusters.provisioning.cattle.io %s -n %s", req.Kind.Kind, req.Name, cluster.Name, cluster.Name, req.Namespace))
}

// isGoing reports whether the CAPI Cluster is being deleted or gone. Cluster API then deletes the
// objects of the Cluster.
func (h *Rendered) isGoing(ctx context.Context, namespace, name string) (bool, error) {
	cluster := &clusterv1.Cluster{}
	if err := h.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return !cluster.DeletionTimestamp.IsZero(), nil
}
