package install

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/admission"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
)

// DriversReaderName is the name of the Role by which every Job may read the cached drivers.
const DriversReaderName = "drover-driver-reader"

// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=drover-drivers,verbs=get;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=drover-manager;drover-system-drover-manager,verbs=get
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=drover-aggregated-manager,verbs=get;create;patch
// Owners that block deletion: an API server that checks this (OwnerReferencesPermissionEnforcement)
// asks for it.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles/finalizers,resourceNames=drover-manager;drover-system-drover-manager,verbs=update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=drover-webhooks,verbs=get;create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=drover-webhooks,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=drover-templates-are-immutable;drover-state-keeps-its-claim;drover-agents-write-their-keys;drover-machines-keep-their-options;drover-versions-are-the-control-planes;drover-references-lead-to-providers;drover-etcd-deletions-are-announced;drover-replicas-are-bounded;drover-management-clusters-have-an-owner;drover-restored-clusters-are-paused,verbs=get;create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,resourceNames=rancher,verbs=get
// To create the aggregated role, the manager needs all rights in it.
// +kubebuilder:rbac:groups=rke-machine.cattle.io;rke-machine-config.cattle.io,resources=*,verbs=get;list;watch;create;update;patch;delete

// Owner returns the owner of Drover's cluster-wide objects, with which they are deleted when the
// chart is uninstalled, or nil if the manager was started by hand. clusterctl puts the manager's
// namespace before the name of each ClusterRole (fixRBAC in cmd/clusterctl/client/repository). The
// manager may read the ClusterRole named after its usual namespace.
func Owner(ctx context.Context, reader client.Reader, namespace string) (*metav1.OwnerReference, error) {
	for _, name := range []string{charts.Name, namespace + "-" + charts.Name} {
		role := &metav1.PartialObjectMetadata{}
		role.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
		err := reader.Get(ctx, client.ObjectKey{Name: name}, role)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && name != charts.Name {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading our own ClusterRole: %w", err)
		}
		return &metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID}, nil
	}
	return nil, nil
}

// Objects installs everything but CRDs, webhook configurations and NodeDrivers.
func Objects(ctx context.Context, c client.Client, owner *metav1.OwnerReference) error {
	applier := apply.Applier{Client: c, Reader: c, Owner: FieldOwner}
	drivers := metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: DriversReaderName}
	objects := []client.Object{
		// The rights of drivers in it are restricted: foreign code runs in its probe pods.
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driver.CacheNamespace, Labels: map[string]string{
			"app.kubernetes.io/part-of": "drover", "pod-security.kubernetes.io/enforce": "restricted"}}},
		&rbacv1.Role{
			ObjectMeta: drivers,
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
		},
		// Every service account may read: a Job runs in its machine's namespace with its own
		// account. The binaries are not secret.
		&rbacv1.RoleBinding{
			ObjectMeta: drivers,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: DriversReaderName},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts"}},
		},
		aggregatedRole(owner),
	}
	_, err := applier.All(ctx, append(objects, admission.Policies(owner)...)...)
	return err
}

// aggregations are the labels by which managers aggregate their rights: Cluster API's core, and the
// control plane providers that clone our templates and aggregate under a name of their own.
// Sources: config/rbac/aggregated_role.yaml of core and controlplane/kubeadm in
// sigs.k8s.io/cluster-api, and controlplane/config/rbac/aggregated_role.yaml in
// rancher/cluster-api-provider-rke2. The providers for k3s, Talos and Canonical Kubernetes
// aggregate nothing, see docs/with-kubeadm.md.
var aggregations = []string{
	"cluster.x-k8s.io/aggregate-to-manager",
	"kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager",
	"rke2.controlplane.cluster.x-k8s.io/aggregate-to-manager",
}

// aggregatedRole grants Cluster API's managers access to our kinds, and to every present and future
// kind of the two groups of drivers' kinds, so that a new driver needs no new role.
func aggregatedRole(owner *metav1.OwnerReference) *rbacv1.ClusterRole {
	whole, part := []string{"get", "list", "watch", "create", "update", "patch", "delete"}, []string{"get", "update", "patch"}
	drivers, ours := []string{crdgen.MachineGroup, crdgen.ConfigGroup}, []string{"rke.cattle.io"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "drover-aggregated-manager", Labels: map[string]string{"cluster.x-k8s.io/provider": "infrastructure-drover"}},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: drivers, Resources: []string{"*"}, Verbs: whole},
			{APIGroups: drivers, Resources: []string{"*/status", "*/finalizers"}, Verbs: part},
			{APIGroups: ours, Resources: []string{"rkeclusters", "rkeclustertemplates", "rkecontrolplanes", "rkebootstraps", "rkebootstraptemplates"}, Verbs: whole},
			{APIGroups: ours, Resources: []string{"rkeclusters/status", "rkeclusters/finalizers", "rkeclustertemplates/finalizers", "rkecontrolplanes/status",
				"rkecontrolplanes/finalizers", "rkebootstraps/status", "rkebootstraps/finalizers", "rkebootstraptemplates/finalizers"}, Verbs: part},
		},
	}
	for _, label := range aggregations {
		role.Labels[label] = "true"
	}
	if owner != nil {
		role.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return role
}

// Webhooks installs the webhook configurations.
func Webhooks(ctx context.Context, c client.Client, target admission.Target) error {
	applier := apply.Applier{Client: c, Reader: c, Owner: FieldOwner}
	validating, mutating := admission.Configuration(target)
	if _, err := applier.Apply(ctx, validating); err != nil {
		return err
	}
	if mutating != nil {
		_, err := applier.Apply(ctx, mutating)
		return err
	}
	// Delete the webhooks that an earlier start with embedded Cluster API left: no server would
	// answer them now.
	left := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}
	left.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	err := c.Get(ctx, client.ObjectKeyFromObject(left), left)
	if err == nil {
		err = c.Delete(ctx, left)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the webhooks of the embedded Cluster API: %w", err)
	}
	return nil
}
