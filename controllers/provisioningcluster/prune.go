package provisioningcluster

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/provisioning/observe"
)

// prune deletes the MachineDeployments and MachineHealthChecks that are no longer rendered, and the
// machine templates that no MachineSet uses.
func (r *Reconciler) prune(ctx context.Context, s *scope) error {
	rendered := map[string]bool{}
	kinds := map[string]bool{}
	templates := map[string]clusterv1.ContractVersionedObjectReference{}
	for _, obj := range s.rendered.Objects {
		switch o := obj.(type) {
		case *clusterv1.MachineDeployment:
			rendered["MachineDeployment/"+o.Name] = true
			templates[o.Name] = o.Spec.Template.Spec.InfrastructureRef
		case *clusterv1.MachineHealthCheck:
			rendered["MachineHealthCheck/"+o.Name] = true
		case *unstructured.Unstructured:
			rendered[o.GetKind()+"/"+o.GetName()] = true
			kinds[o.GetKind()] = true
		}
	}
	for name, deployment := range s.deployments {
		kinds[deployment.Spec.Template.Spec.InfrastructureRef.Kind] = true
		if rendered["MachineDeployment/"+name] || slices.Contains(s.rendered.Keep, name) || !deployment.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.remove(ctx, deployment, "MachineDeployment"); err != nil {
			return err
		}
	}
	checks := &clusterv1.MachineHealthCheckList{}
	if err := r.Client.List(ctx, checks, ofCluster(s)...); err != nil {
		return fmt.Errorf("listing MachineHealthChecks: %w", err)
	}
	for i := range checks.Items {
		check := &checks.Items[i]
		if rendered["MachineHealthCheck/"+check.Name] || slices.Contains(s.rendered.Keep, check.Name) || !observe.Belongs(s.capi, check) {
			continue
		}
		if err := r.remove(ctx, check, "MachineHealthCheck"); err != nil {
			return err
		}
	}
	return r.pruneTemplates(ctx, s, rendered, kinds, templates)
}

// pruneTemplates deletes the machine templates that neither a MachineDeployment nor a MachineSet
// names. It also counts the machines of earlier templates; templates are the rendered ones.
func (r *Reconciler) pruneTemplates(ctx context.Context, s *scope, used, kinds map[string]bool, templates map[string]clusterv1.ContractVersionedObjectReference) error {
	sets := &clusterv1.MachineSetList{}
	if err := r.Client.List(ctx, sets, client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.Name}); err != nil {
		return fmt.Errorf("listing MachineSets: %w", err)
	}
	s.older = map[string]int32{}
	for i := range sets.Items {
		set := &sets.Items[i]
		ref := set.Spec.Template.Spec.InfrastructureRef
		used[ref.Kind+"/"+ref.Name] = true
		name := set.Labels[clusterv1.MachineDeploymentNameLabel]
		if now, rendered := templates[name]; rendered && now != ref {
			s.older[name] += max(ptr.Deref(set.Spec.Replicas, 0), ptr.Deref(set.Status.Replicas, 0))
		}
	}
	for _, deployment := range s.deployments {
		ref := deployment.Spec.Template.Spec.InfrastructureRef
		used[ref.Kind+"/"+ref.Name] = true
	}
	for kind := range kinds {
		served, err := observe.Observer{Client: r.Client}.IsServed(ctx, rkev1.MachineGroupVersion.WithKind(kind))
		if err != nil {
			return err
		}
		if !served {
			continue
		}
		templates := &unstructured.UnstructuredList{}
		templates.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind + "List"))
		if err := r.Client.List(ctx, templates, ofCluster(s)...); err != nil {
			return fmt.Errorf("listing %ss: %w", kind, err)
		}
		for i := range templates.Items {
			template := &templates.Items[i]
			if used[kind+"/"+template.GetName()] || !observe.Belongs(s.capi, template) {
				continue
			}
			if err := r.remove(ctx, template, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reconciler) remove(ctx context.Context, obj client.Object, kind string) error {
	uid := obj.GetUID()
	err := r.Client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", kind, obj.GetName(), err)
	}
	return nil
}

func ofCluster(s *scope) []client.ListOption {
	return []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{rkev1.ClusterNameLabel: s.Name}}
}
