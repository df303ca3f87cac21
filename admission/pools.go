package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
)

// PoolsPath is the path of the webhook Pools.
const PoolsPath = "/validate-drover-etcd-pools"

// Pools is the webhook for changes of MachineDeployments and MachineSets that would delete or
// replace the only server with a cluster's data. It is a webhook and not a policy, because a request
// to scale contains no template, and because the decision needs the Machines.
type Pools struct {
	// Reader reads the present pools, Clusters, RKEControlPlanes and Machines.
	Reader client.Reader
}

var _ admission.Handler = (*Pools)(nil)

// hasEtcdRole matches a pool whose machines have the role etcd and an RKEBootstrap.
func hasEtcdRole(obj string) string {
	return fmt.Sprintf("%[1]s.spec.?template.metadata.labels[?%[2]s].orValue('') == 'true' && %[1]s.spec.?template.spec.bootstrap.configRef.kind.orValue('') == 'RKEBootstrapTemplate'",
		obj, celString(rkev1.EtcdRoleLabel))
}

// pools does not depend on the manager for changes that concern no etcd, and for a scale to another
// number than 0.
func (t Target) pools() admissionregistrationv1.ValidatingWebhook {
	hook := t.validating("pools.drover.cattle.io", PoolsPath, admissionregistrationv1.RuleWithOperations{
		Operations: updates,
		Rule: admissionregistrationv1.Rule{APIGroups: []string{clusterv1.GroupVersion.Group}, APIVersions: []string{clusterv1.GroupVersion.Version},
			Resources: []string{"machinedeployments", "machinedeployments/scale", "machinesets", "machinesets/scale"}},
	})
	hook.MatchConditions = append(t.notOurs(), admissionregistrationv1.MatchCondition{
		Name: "concerns-etcd",
		Expression: "has(request.subResource) && request.subResource == 'scale' ? object.?spec.replicas.orValue(0) == 0 : " +
			"object.spec != oldObject.spec && !oldObject.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false)) && " + hasEtcdRole("oldObject"),
	})
	return hook
}

// pool is a MachineDeployment or MachineSet.
type pool struct {
	client.Object

	resource string
	// label on a Machine names its pool.
	label    string
	cluster  string
	replicas int32
	template *clusterv1.MachineTemplateSpec
	// rollout is the time after which Cluster API replaces older machines. Zero for none.
	rollout metav1.Time
}

func poolOf(obj client.Object) pool {
	switch is := obj.(type) {
	case *clusterv1.MachineSet:
		return pool{Object: is, resource: "machinesets", label: clusterv1.MachineSetNameLabel, cluster: is.Spec.ClusterName,
			replicas: ptr.Deref(is.Spec.Replicas, 1), template: &is.Spec.Template}
	case *clusterv1.MachineDeployment:
		return pool{Object: is, resource: "machinedeployments", label: clusterv1.MachineDeploymentNameLabel, cluster: is.Spec.ClusterName,
			replicas: ptr.Deref(is.Spec.Replicas, 1), template: &is.Spec.Template, rollout: is.Spec.Rollout.After}
	}
	return pool{Object: obj, template: &clusterv1.MachineTemplateSpec{}}
}

// Handle implements admission.Handler.
func (h *Pools) Handle(ctx context.Context, req admission.Request) admission.Response {
	was, is, err := h.decode(ctx, req)
	if apierrors.IsNotFound(err) {
		return admission.Allowed("") // the API server reports it
	}
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if isFree(was, is) {
		return admission.Allowed("")
	}
	asked := changeOf(was, is)
	if asked == (change{}) {
		return admission.Allowed("")
	}
	server, err := h.serverOf(ctx, was)
	if err == nil && server != nil && asked.replaces && !asked.restarts {
		server, err = h.unlessOf(ctx, server, is.template)
	}
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case server == nil:
		return admission.Allowed("")
	}
	return admission.Denied(asked.refusal(was))
}

// isFree reports whether every change of a pool is allowed: it has no server with a cluster's data,
// it is being deleted, the user forces the change, or a controller scales the MachineSet of a
// MachineDeployment.
func isFree(was, is pool) bool {
	return metav1.GetControllerOf(was) != nil || !is.GetDeletionTimestamp().IsZero() || is.GetAnnotations()[rkev1.EtcdForceRemoveAnnotation] == "true" ||
		was.template.Labels[rkev1.EtcdRoleLabel] != "true" || was.template.Spec.Bootstrap.ConfigRef.Kind != "RKEBootstrapTemplate"
}

// change is the effect of a request on the machines of a pool.
type change struct {
	// deletes all machines, or replaces them; restarts is true if a new rollout does.
	deletes, replaces, restarts bool
}

func changeOf(was, is pool) change {
	if is.replicas == 0 {
		return change{deletes: was.replicas != 0}
	}
	if was.resource != "machinedeployments" { // a MachineSet replaces no machines
		return change{}
	}
	restarts := !is.rollout.IsZero() && !is.rollout.Equal(&was.rollout)
	return change{replaces: restarts || !sameMachines(was.template, is.template), restarts: restarts}
}

func (c change) refusal(was pool) string {
	if cluster := was.GetLabels()[rkev1.ClusterNameLabel]; cluster != "" && was.GetAnnotations()[apply.HashAnnotation] != "" {
		return fmt.Sprintf("this change would delete or replace the only server of Cluster %s, with the cluster's data on it (etcd), and Drover would revert it. Change the Cluster instead: "+
			"kubectl edit clusters.provisioning.cattle.io %s -n %s", cluster, cluster, was.GetNamespace())
	}
	force := fmt.Sprintf("first run: kubectl annotate %s.%s %s -n %s %s=true", was.resource, clusterv1.GroupVersion.Group, was.GetName(), was.GetNamespace(), rkev1.EtcdForceRemoveAnnotation)
	if c.deletes {
		return fmt.Sprintf("replicas: 0 would delete the only server of Cluster %s, with the cluster's data on it (etcd). Drover cannot restore the data. To delete it, %s", was.cluster, force)
	}
	return fmt.Sprintf("this change would replace the only server of Cluster %s: Cluster API would create a second server, which cannot join (TierUnsupported), because Drover supports one server with etcd. "+
		"Undo the change. To roll out nevertheless, %s", was.cluster, force)
}

// decode returns the pool before and after the request. A request to scale has only the number.
func (h *Pools) decode(ctx context.Context, req admission.Request) (was, is pool, err error) {
	read := func() client.Object {
		if req.Resource.Resource == "machinesets" {
			return &clusterv1.MachineSet{}
		}
		return &clusterv1.MachineDeployment{}
	}
	earlier, present := read(), read()
	if req.SubResource == "scale" {
		scale := &autoscalingv1.Scale{}
		if err := json.Unmarshal(req.Object.Raw, scale); err != nil {
			return pool{}, pool{}, fmt.Errorf("decoding the Scale: %w", err)
		}
		if err := h.Reader.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, earlier); err != nil {
			return pool{}, pool{}, fmt.Errorf("reading the %s: %w", req.Resource.Resource, err)
		}
		was, is = poolOf(earlier), poolOf(earlier)
		is.replicas = scale.Spec.Replicas
		return was, is, nil
	}
	if err := json.Unmarshal(req.Object.Raw, present); err != nil {
		return pool{}, pool{}, fmt.Errorf("decoding the object: %w", err)
	}
	if err := json.Unmarshal(req.OldObject.Raw, earlier); err != nil {
		return pool{}, pool{}, fmt.Errorf("decoding the earlier object: %w", err)
	}
	return poolOf(earlier), poolOf(present), nil
}

// sameMachines compares the fields for which Cluster API replaces machines (MachineTemplateUpToDate
// in core/reconcilers/machinedeployment/mdutil).
func sameMachines(one, other *clusterv1.MachineTemplateSpec) bool {
	a, b := one.Spec, other.Spec
	return a.InfrastructureRef == b.InfrastructureRef && a.Bootstrap.ConfigRef == b.Bootstrap.ConfigRef &&
		ptr.Equal(a.Bootstrap.DataSecretName, b.Bootstrap.DataSecretName) && a.Version == b.Version && a.FailureDomain == b.FailureDomain
}

// serverOf returns the Machine of a pool whose server has the cluster's data; nil if no server of
// the pool has it. The server is the one that has joined. If none has a Node, for example after a
// restore, each machine of an established cluster counts.
func (h *Pools) serverOf(ctx context.Context, of pool) (*clusterv1.Machine, error) {
	established, err := h.isEstablished(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: of.cluster})
	if err != nil || !established {
		return nil, err
	}
	machines := &clusterv1.MachineList{}
	if err := h.Reader.List(ctx, machines, client.InNamespace(of.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: of.cluster}); err != nil {
		return nil, fmt.Errorf("listing the Machines: %w", err)
	}
	var candidate *clusterv1.Machine
	elsewhere := false
	for i := range machines.Items {
		m := &machines.Items[i]
		mine, joined := m.Labels[of.label] == of.GetName(), m.Status.NodeRef.IsDefined()
		switch {
		case !m.DeletionTimestamp.IsZero() || !mine && m.Labels[rkev1.EtcdRoleLabel] != "true":
		case mine && joined:
			return m, nil
		case mine:
			candidate = m
		case joined:
			elsewhere = true
		}
	}
	if elsewhere {
		return nil, nil
	}
	return candidate, nil
}

// isEstablished reports whether a Cluster may have data: it is not being deleted, and its
// RKEControlPlane is established. A control plane that does not exist may not be restored yet.
func (h *Pools) isEstablished(ctx context.Context, name client.ObjectKey) (bool, error) {
	cluster := &clusterv1.Cluster{}
	if err := h.Reader.Get(ctx, name, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading the Cluster: %w", err)
	}
	ref := cluster.Spec.ControlPlaneRef
	if !cluster.DeletionTimestamp.IsZero() || ref.APIGroup != rkev1.GroupVersion.Group || ref.Kind != "RKEControlPlane" {
		return false, nil
	}
	controlPlane := &rkev1.RKEControlPlane{}
	err := h.Reader.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: ref.Name}, controlPlane)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the RKEControlPlane: %w", err)
	}
	return controlPlane.IsEstablished(), nil
}

// unlessOf returns the server unless its MachineSet has the template: the change then ends a rollout.
func (h *Pools) unlessOf(ctx context.Context, server *clusterv1.Machine, template *clusterv1.MachineTemplateSpec) (*clusterv1.Machine, error) {
	set := &clusterv1.MachineSet{}
	err := h.Reader.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: server.Labels[clusterv1.MachineSetNameLabel]}, set)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading the MachineSet: %w", err)
	case err == nil && sameMachines(&set.Spec.Template, template):
		return nil, nil
	}
	return server, nil
}

// etcdDeletionsAreAnnounced warns users. Controllers would only log the warning.
func etcdDeletionsAreAnnounced() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor([]admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
			admissionregistrationv1.Rule{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"machines", "machinesets", "machinedeployments"}}),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "by-a-user", Expression: "!request.userInfo.username.startsWith('system:serviceaccount:')"},
			{Name: "stays", Expression: "!has(oldObject.metadata.deletionTimestamp)"},
			{Name: "has-etcd", Expression: hasEtcdRole("oldObject") + " || oldObject.metadata.?labels[?" + celString(rkev1.EtcdRoleLabel) + "].orValue('') == 'true' && " +
				"oldObject.spec.?bootstrap.configRef.kind.orValue('') == 'RKEBootstrap'"},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "false",
			Message: "this deletes a server with the role etcd and the cluster's data on it, which Drover cannot restore. docs/clusters.md describes how to back the data up"}},
	}
}
