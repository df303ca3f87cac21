package charts

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Labels are on every object of an installation, also on what the manager installs itself; clusterctl goes by them.
func Labels() map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":       "drover",
		"app.kubernetes.io/part-of":    "drover",
		"cluster.x-k8s.io/provider":    "infrastructure-drover",
		"clusterctl.cluster.x-k8s.io":  "",
		"app.kubernetes.io/managed-by": "drover",
	}
}

// selector finds the manager's pods; it never changes.
func selector() map[string]string {
	return map[string]string{"app.kubernetes.io/name": "drover", "app.kubernetes.io/component": "manager"}
}

// Objects are everything a cluster needs to run the manager, in the order to apply them. CRDs, webhooks and policies are
// not among them: the manager installs those itself when it starts.
func Objects(s Settings) ([]client.Object, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	role, err := ManagerRole()
	if err != nil {
		return nil, err
	}
	objs := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted"}}}}
	if s.WithCRDs {
		crds, err := CRDs()
		if err != nil {
			return nil, err
		}
		for _, crd := range crds {
			objs = append(objs, crd)
		}
	}
	const aggregate = Name + "-aggregate"
	objs = append(objs, &corev1.ServiceAccount{ObjectMeta: s.meta(Name)}, role, clusterRoleBinding(s, Name),
		// It collects what providers of other kinds ship for Cluster API's manager, which ours is when it embeds the core.
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: aggregate}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"cluster.x-k8s.io/aggregate-to-manager": "true"}}}}},
		clusterRoleBinding(s, aggregate), leaderRole(s),
		&rbacv1.RoleBinding{ObjectMeta: s.meta(Name), Subjects: s.subjects(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: Name}})
	for _, role := range userRoles(s) {
		objs = append(objs, role)
	}
	for _, ca := range s.certificates() {
		objs = append(objs, &corev1.ConfigMap{ObjectMeta: s.meta(ca.name), Data: map[string]string{jobCAKey: string(ca.pem)}})
	}
	webhooks := service(s, WebhookService, 443, WebhookPort)
	webhooks.Spec.PublishNotReadyAddresses = true // the pod becomes ready only when the webhooks are configured
	objs = append(objs, webhooks, service(s, MetricsService, MetricsPort, MetricsPort))
	if s.ServerURL != "" {
		agents := service(s, AgentsService, 443, AgentsPort)
		agents.Spec.Type, agents.Spec.Ports[0].NodePort = s.AgentsServiceType, s.AgentsNodePort
		if agents.Spec.Type == "" && s.AgentsNodePort > 0 {
			agents.Spec.Type = corev1.ServiceTypeNodePort
		}
		objs = append(objs, agents)
	}
	objs = append(objs,
		&policyv1.PodDisruptionBudget{ObjectMeta: s.meta(Name), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector()}}})
	if len(s.APIServerCIDRs) > 0 {
		objs = append(objs, networkPolicy(s))
	}
	objs = append(objs, deployment(s))
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	for _, obj := range objs {
		all := Labels()
		maps.Copy(all, obj.GetLabels())
		obj.SetLabels(all)
		gvk, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	return objs, nil
}

// Content is obj as YAML tools want it: without status and without what typed objects have for nothing.
func Content(obj client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	_, isCRD := obj.(*apiextensionsv1.CustomResourceDefinition)
	dropEmpty(content, isCRD)
	return content, nil
}

// dropEmpty drops what says nothing: nulls, and empty maps but for those of a schema, where subresources.status: {} is what
// makes a status.
func dropEmpty(value any, keepMaps bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			dropEmpty(item, keepMaps)
			if object, isObject := item.(map[string]any); item == nil || isObject && len(object) == 0 && !keepMaps {
				delete(v, key)
			}
		}
	case []any:
		for _, item := range v {
			dropEmpty(item, keepMaps)
		}
	}
}

func (s Settings) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.Namespace}
}

func (s Settings) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: Name, Namespace: s.Namespace}}
}

func clusterRoleBinding(s Settings, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: s.subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
}

func leaderRole(s Settings) *rbacv1.Role {
	leases := func(verb []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verb, ResourceNames: names}
	}
	return &rbacv1.Role{ObjectMeta: s.meta(Name), Rules: []rbacv1.PolicyRule{
		leases([]string{"create"}),
		leases([]string{"get", "update"}, Name),
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}
}

// certificates is a ConfigMap of CA certificates that the manager's pod mounts.
type certificates struct {
	name, dir, volume string
	pem               []byte
}

func (s Settings) certificates() []certificates {
	all := []certificates{{JobCAConfigMap, jobCADir, "job-ca", s.JobCA}, {WebhookCAConfigMap, webhookCADir, "webhook-client-ca", s.WebhookClientCA}}
	return slices.DeleteFunc(all, func(c certificates) bool { return len(c.pem) == 0 })
}

// networkPolicy lets nobody but API servers reach the webhooks; the other ports are open. They are no pods, so only the administrator knows their addresses.
func networkPolicy(s Settings) *networkingv1.NetworkPolicy {
	port := func(number int) []networkingv1.NetworkPolicyPort {
		return []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt(number))}}
	}
	webhooks := networkingv1.NetworkPolicyIngressRule{Ports: port(WebhookPort)}
	for _, cidr := range s.APIServerCIDRs {
		webhooks.From = append(webhooks.From, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	open := append(port(MetricsPort), port(HealthPort)...)
	if s.ServerURL != "" {
		open = append(open, port(AgentsPort)...)
	}
	return &networkingv1.NetworkPolicy{ObjectMeta: s.meta(Name), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: selector()},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{webhooks, {Ports: open}},
	}}
}

func service(s Settings, name string, port, target int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: s.meta(name), Spec: corev1.ServiceSpec{
		Selector: selector(),
		Ports:    []corev1.ServicePort{{Name: "main", Port: port, TargetPort: intstr.FromInt32(target), Protocol: corev1.ProtocolTCP}},
	}}
}
