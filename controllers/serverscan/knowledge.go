package serverscan

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
)

const pageSize = 500

// know reads live what the API has; whatever cannot be read makes every verdict impossible, and is an error.
func (r *Reconciler) know(ctx context.Context, scan *rkev1.ServerScan) (knowledge, error) {
	k := knowledge{namespace: scan.Namespace, driver: scan.Spec.Driver, management: r.Management, deleted: map[string]bool{}, elsewhere: map[string]bool{}, uids: map[string]string{},
		providerIDs: map[string]bool{}, names: map[string]bool{}, clusters: map[string]bool{}, here: map[string]string{}, conditions: map[string]metav1.Condition{}}
	for _, uid := range scan.Spec.DeletedClusters {
		k.deleted[uid] = true
	}
	clusters := &metav1.PartialObjectMetadataList{}
	clusters.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterList"))
	if err := r.Reader.List(ctx, clusters); err != nil {
		return k, fmt.Errorf("listing Clusters: %w", err)
	}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Namespace == scan.Namespace {
			k.clusters[string(cluster.UID)] = !cluster.DeletionTimestamp.IsZero()
		} else {
			k.elsewhere[string(cluster.UID)] = true
		}
	}
	kinds, err := r.machineKinds(ctx)
	if err != nil {
		return k, err
	}
	for _, kind := range kinds {
		if err := eachMachine(ctx, r.Reader, kind, func(machine *unstructured.Unstructured) { k.add(scan, machine) }); err != nil {
			return k, err
		}
	}
	return k, nil
}

// machineKinds are the kinds of machines that the API has, served or not: of one whose machines cannot be listed nothing is
// known.
func (r *Reconciler) machineKinds(ctx context.Context) ([]schema.GroupVersionKind, error) {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := r.Reader.List(ctx, crds, client.HasLabels{rkev1.NodeDriverLabel}); err != nil {
		return nil, fmt.Errorf("listing the kinds of machines: %w", err)
	}
	var kinds []schema.GroupVersionKind
	for i := range crds.Items {
		spec := crds.Items[i].Spec
		if spec.Group == rkev1.MachineGroupVersion.Group && strings.HasSuffix(spec.Names.Kind, "Machine") {
			kinds = append(kinds, rkev1.MachineGroupVersion.WithKind(spec.Names.Kind))
		}
	}
	return kinds, nil
}

// eachMachine reads the machines of a kind, a page at a time.
func eachMachine(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, do func(*unstructured.Unstructured), in ...client.ListOption) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	options := (&client.ListOptions{Limit: pageSize}).ApplyOptions(in)
	for {
		if err := reader.List(ctx, list, options); err != nil {
			return fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			do(&list.Items[i])
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

func (k knowledge) add(scan *rkev1.ServerScan, machine *unstructured.Unstructured) {
	object := rkev1.DriverMachine{Unstructured: machine}
	providerID := object.ProviderID()
	k.uids[string(machine.GetUID())] = providerID
	k.names[jobrunner.Tags(jobrunner.MachineRef{Namespace: machine.GetNamespace(), Name: machine.GetName()})[jobrunner.TagMachine]] = true
	if providerID == "" {
		return
	}
	k.providerIDs[providerID] = true
	if machine.GetNamespace() == scan.Namespace && machine.GetKind() == crdgen.KindsOf(scan.Spec.Driver).Machine &&
		object.CredentialName() == scan.Spec.CloudCredentialSecretName && settled(machine) {
		k.here[machine.GetName()] = providerID
		k.conditions[machine.GetName()] = serverExists(machine)
	}
}

// settled leaves out machines that are on their way.
func settled(machine *unstructured.Unstructured) bool {
	ready, _, _ := unstructured.NestedBool(machine.Object, "status", "ready")
	return ready && machine.GetDeletionTimestamp() == nil && machine.GetCreationTimestamp() != metav1.Time{}
}
