package admission

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/planner"
)

// ConfigurationName is the name of our two webhook configurations.
const ConfigurationName = "drover-webhooks"

// Target is the address of our webhook server for the API server.
type Target struct {
	// Service in the cluster; used when URL is empty.
	Service client.ObjectKey
	// URL of a manager outside the cluster, such as https://127.0.0.1:9443.
	URL string
	// Path is the prefix of all paths of our webhook server.
	Path string
	// CABundle is the PEM bundle with which the API server verifies our webhook server.
	CABundle []byte
	// Username is the manager's name at the API server: the webhooks skip the manager's own writes.
	// Empty for none.
	Username string
	// CAPI adds the webhooks of the embedded Cluster API.
	CAPI bool
	// Owner is the owner of the configurations, so that no webhook stays after its server is gone;
	// may be nil.
	Owner *metav1.OwnerReference
}

// Configuration returns the webhook configurations; the mutating one is nil if nothing is mutated.
func Configuration(t Target) (*admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration) {
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metaOf(ConfigurationName, t.Owner), Webhooks: t.own()}
	if !t.CAPI {
		return validating, nil
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metaOf(ConfigurationName, t.Owner)}
	for _, hook := range capi.Webhooks() {
		v := t.validating(hook.Name, hook.Path, hook.Rule)
		if !hook.Mutating {
			validating.Webhooks = append(validating.Webhooks, v)
			continue
		}
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: v.Name, ClientConfig: v.ClientConfig, Rules: v.Rules, AdmissionReviewVersions: v.AdmissionReviewVersions, SideEffects: v.SideEffects,
			FailurePolicy: v.FailurePolicy, MatchPolicy: v.MatchPolicy, TimeoutSeconds: v.TimeoutSeconds,
			ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
		})
	}
	return validating, mutating
}

// metaOf returns the metadata of an installed object, with its owner if it has one.
func metaOf(name string, owner *metav1.OwnerReference) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: name, Labels: charts.Labels()}
	if owner != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return meta
}

// own returns the webhooks of this package.
func (t Target) own() []admissionregistrationv1.ValidatingWebhook {
	machines := t.validating("machines.drover.cattle.io", MachineKindsPath, admissionregistrationv1.RuleWithOperations{
		Operations: writes,
		Rule: admissionregistrationv1.Rule{APIGroups: []string{crdgen.MachineGroup, crdgen.ConfigGroup}, APIVersions: []string{"*"},
			Resources: []string{"*"}},
	})
	drivers := t.validating("nodedrivers.drover.cattle.io", NodeDriversPath, admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{"management.cattle.io"}, APIVersions: []string{"*"},
			Resources: []string{"nodedrivers"}},
	})
	// Labels, finalizers and owners of a machine can be changed while the manager does not run.
	machines.MatchConditions = append(t.notOurs(), admissionregistrationv1.MatchCondition{
		Name:       "spec-changes",
		Expression: "request.operation != 'UPDATE' || (has(object.spec) && has(oldObject.spec) ? object.spec != oldObject.spec : true)",
	})
	drivers.MatchConditions = t.notOurs()
	// Also for the manager's own deletions, because Cluster API may run in the manager.
	controlPlanes := t.validating("rkecontrolplanes.drover.cattle.io", ControlPlanesPath, admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{rkev1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"rkecontrolplanes"}},
	})
	specs := t.validating("specs.rkecontrolplanes.drover.cattle.io", ControlPlaneSpecsPath, admissionregistrationv1.RuleWithOperations{
		Operations: writes,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{rkev1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"rkecontrolplanes"}},
	})
	// While the manager does not run, users can still change metadata, and remove fields.
	specs.MatchConditions = append(t.notOurs(), admissionregistrationv1.MatchCondition{
		Name: "bounded-fields-change",
		Expression: "has(object.spec) && ['" + strings.Join(planner.BoundedFields(), "', '") + "'].exists(f, f in object.spec && " +
			"(oldObject == null || oldObject.?spec[?f].orValue(null) != object.spec[f]))",
	})
	clusters := t.validating("clusters.provisioning.drover.cattle.io", ClustersPath, admissionregistrationv1.RuleWithOperations{
		Operations: writes,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{provv1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"clusters"}},
	})
	// While the manager does not run, users can still change other metadata.
	clusters.MatchConditions = append(t.notOurs(), admissionregistrationv1.MatchCondition{
		Name: "spec-changes", Expression: "has(object.spec) && (oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec || " + isAdded(rkev1.EtcdForceRemoveAnnotation) + " || " + isForgotten + ")",
	})
	return []admissionregistrationv1.ValidatingWebhook{machines, drivers, controlPlanes, specs, t.warnings(), t.pools(), clusters, t.rendered()}
}

// isForgotten matches an update that takes the annotation of the first rendering from a Cluster.
var isForgotten = fmt.Sprintf("oldObject.metadata.?annotations[?%[1]s].orValue('') == object.metadata.name && object.metadata.?annotations[?%[1]s].orValue('') != object.metadata.name",
	celString(provv1.RenderedAnnotation))

// isAdded matches an update that sets an annotation to "true".
func isAdded(annotation string) string {
	const value = "%s.metadata.?annotations[?%s].orValue('') == 'true'"
	return fmt.Sprintf(value+" && !("+value+")", "object", celString(annotation), "oldObject", celString(annotation))
}

// warnings returns the webhook ControlPlaneWarnings. No write needs it, because it rejects nothing.
func (t Target) warnings() admissionregistrationv1.ValidatingWebhook {
	hook := t.validating("warnings.rkecontrolplanes.drover.cattle.io", ControlPlaneWarningsPath, admissionregistrationv1.RuleWithOperations{
		Operations: writes,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{rkev1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"rkecontrolplanes"}},
	})
	hook.FailurePolicy = new(admissionregistrationv1.Ignore)
	hook.MatchConditions = append(t.notOurs(), admissionregistrationv1.MatchCondition{
		Name:       "spec-changes",
		Expression: "has(object.spec) && !has(object.metadata.deletionTimestamp) && (oldObject == null || object.spec != oldObject.?spec.orValue(null))",
	})
	return hook
}

// notOurs excludes the manager's own writes, so that a starting manager never waits for its own
// webhook.
func (t Target) notOurs() []admissionregistrationv1.MatchCondition {
	if t.Username == "" {
		return nil
	}
	return []admissionregistrationv1.MatchCondition{{
		Name: "not-the-manager", Expression: "request.userInfo.username != " + celString(t.Username)}}
}

// celString quotes a text for CEL.
func celString(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`).Replace(text) + "'"
}

// webhookTimeout is how long the API server waits for an answer.
const webhookTimeout = 10

func (t Target) validating(name, path string, rule admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
	rule.Scope = new(admissionregistrationv1.AllScopes)
	config := admissionregistrationv1.WebhookClientConfig{CABundle: t.CABundle}
	if path = t.Path + path; t.URL != "" {
		config.URL = new(strings.TrimSuffix(t.URL, "/") + path)
	} else {
		config.Service = &admissionregistrationv1.ServiceReference{Namespace: t.Service.Namespace, Name: t.Service.Name, Path: &path, Port: new(int32(443))}
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name: name, ClientConfig: config, Rules: []admissionregistrationv1.RuleWithOperations{rule},
		AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
		FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Equivalent),
		TimeoutSeconds: new(int32(webhookTimeout)),
	}
}

// Register adds the webhooks of this package to the manager's webhook server.
func Register(mgr manager.Manager, trustedCredentialNamespaces []string, catalogue Catalogue) {
	server := mgr.GetWebhookServer()
	server.Register(MachineKindsPath, &admission.Webhook{Handler: &MachineKinds{Client: mgr.GetClient(), Cached: mgr.GetClient(), Live: mgr.GetAPIReader(),
		TrustedCredentialNamespaces: trustedCredentialNamespaces}})
	server.Register(NodeDriversPath, &admission.Webhook{Handler: &NodeDrivers{}})
	server.Register(ControlPlaneSpecsPath, &admission.Webhook{Handler: &ControlPlaneSpecs{}})
	server.Register(ControlPlaneWarningsPath, &admission.Webhook{Handler: &ControlPlaneWarnings{Catalogue: catalogue}})
	server.Register(PoolsPath, &admission.Webhook{Handler: &Pools{Reader: mgr.GetAPIReader()}})
	server.Register(ClustersPath, &admission.Webhook{Handler: &Clusters{Client: mgr.GetClient(), Catalogue: catalogue,
		Credentials: credential.Source{Reader: mgr.GetAPIReader(), Trusted: trustedCredentialNamespaces}}})
	server.Register(RenderedPath, &admission.Webhook{Handler: &Rendered{Reader: mgr.GetClient()}})
	server.Register(ControlPlanesPath, &admission.Webhook{Handler: &ControlPlanes{Reader: mgr.GetAPIReader()}})
}
