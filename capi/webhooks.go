package capi

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/drover-project/drover/capi/guard"
)

func setupWebhooks(mgr manager.Manager, clusters clustercache.ClusterCache) error {
	type registered interface {
		SetupWebhookWithManager(mgr manager.Manager) error
	}
	for _, one := range []registered{
		&admission.Cluster{Client: mgr.GetClient(), ClusterCacheReader: clusters},
		&admission.ClusterResourceSet{}, &admission.ClusterResourceSetBinding{},
		&admission.Machine{}, &admission.MachineDeployment{}, &admission.MachineDrainRule{},
		&admission.MachineHealthCheck{}, &admission.MachinePool{}, &admission.MachineSet{},
	} {
		if err := one.SetupWebhookWithManager(mgr); err != nil {
			return fmt.Errorf("adding Cluster API's webhook %T: %w", one, err)
		}
	}
	mgr.GetWebhookServer().Register(guard.Path, &webhook.Admission{Handler: &guard.Webhook{Client: mgr.GetClient()}})
	return nil
}

// Webhook is one admission webhook that Setup makes the manager serve.
type Webhook struct {
	// Name of the webhook in its configuration, a domain name.
	Name string
	// Path on our webhook server.
	Path string
	// Mutating is true for a mutating webhook, false for a validating one.
	Mutating bool
	// Rule selects the requests for it.
	Rule admissionregistrationv1.RuleWithOperations
}

// kind is one of Cluster API's kinds that has webhooks.
type kind struct {
	group, name, plural string
	// defaults reports whether it has a defaulting webhook, deletes whether its validating webhook
	// handles deletions.
	defaults, deletes bool
}

// kinds agree with the markers on the types in sigs.k8s.io/cluster-api/core/webhooks/admission. The
// webhooks of ClusterClass and ExtensionConfig are left out: guard rejects the former, and the CRD
// of the latter is not installed.
var kinds = []kind{
	{group: "cluster.x-k8s.io", name: "cluster", plural: "clusters", defaults: true, deletes: true},
	{group: "cluster.x-k8s.io", name: "machine", plural: "machines", defaults: true},
	{group: "cluster.x-k8s.io", name: "machinedeployment", plural: "machinedeployments", defaults: true},
	{group: "cluster.x-k8s.io", name: "machinedrainrule", plural: "machinedrainrules"},
	{group: "cluster.x-k8s.io", name: "machinehealthcheck", plural: "machinehealthchecks", defaults: true},
	{group: "cluster.x-k8s.io", name: "machinepool", plural: "machinepools", defaults: true},
	{group: "cluster.x-k8s.io", name: "machineset", plural: "machinesets", defaults: true},
	{group: "addons.cluster.x-k8s.io", name: "clusterresourceset", plural: "clusterresourcesets", defaults: true},
	{group: "addons.cluster.x-k8s.io", name: "clusterresourcesetbinding", plural: "clusterresourcesetbindings"},
}

// Webhooks lists the admission webhooks of the embedded core, our own in front of them first.
func Webhooks() []Webhook {
	out := []Webhook{{Name: "guard.cluster.x-k8s.io.drover.cattle.io", Path: guard.Path, Mutating: true, Rule: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{clusterv1.GroupVersion.Group}, APIVersions: []string{"v1beta2"},
			Resources: []string{"clusters", "clusterclasses", "machines", "machinedeployments", "machinesets"}},
	}}}
	for _, k := range kinds {
		if k.defaults {
			out = append(out, k.webhook(true, admissionregistrationv1.Create, admissionregistrationv1.Update))
		}
		operations := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
		if k.deletes {
			operations = append(operations, admissionregistrationv1.Delete)
		}
		out = append(out, k.webhook(false, operations...))
	}
	return out
}

func (k kind) webhook(mutating bool, operations ...admissionregistrationv1.OperationType) Webhook {
	verb, prefix := "validate", "validation"
	if mutating {
		verb, prefix = "mutate", "default"
	}
	return Webhook{
		Name:     prefix + "." + k.name + "." + k.group,
		Path:     "/" + verb + "-" + strings.ReplaceAll(k.group, ".", "-") + "-v1beta2-" + k.name,
		Mutating: mutating,
		Rule: admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{k.group}, APIVersions: []string{"v1beta2"}, Resources: []string{k.plural},
			},
		},
	}
}
