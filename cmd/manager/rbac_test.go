package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/access"
)

// TestManagerRole: the manager lives through its whole story with the rights of its service account and no others. What it
// asks for and may not, and what it may and never asks for, both fail. Cluster API runs elsewhere, so that only our own
// requests count; what the embedded one may do is compared with its own role in package capi.
func TestManagerRole(t *testing.T) {
	config := testkit.Fresh(t)
	scheme, err := newScheme()
	require.NoError(t, err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	installCAPI(t, c)
	objs, err := charts.Objects(charts.Settings{Image: "drover.local/drover:test", WithCRDs: true})
	require.NoError(t, err)
	token := accountToken(t, c, objs)
	recorder := access.NewRecorder(t, config)

	s := &story{T: t, client: c, namespace: "team"}
	s.setting()
	port := newAgentPort(t)
	stop := startManager(t, recorder.Kubeconfig(t, token), append(port.flags, "--capi=external", "--leader-elect", "--scan-interval=10s")...)
	awaitActive(t, c, "digitalocean")
	require.NoError(t, c.Create(t.Context(), machineOf(s.namespace, "m0", "DigitaloceanMachine", "cred")))
	s.registerDriver()
	s.machineLife()
	s.deliverPlan()
	port.bootstrapped(c, joiner(t, c, s.namespace, true))
	s.scanServers()
	s.scansByItself()
	s.clusterLife()
	s.forgetDriver()
	s.cancelledLife()
	stop()
	embedded := s.embed(config, token)

	require.Empty(t, lines(recorder.Refused()), "the API server refused what the manager needs")
	require.Empty(t, lines(embedded.Refused()), "the API server refused what the manager needs with Cluster API embedded")
	used := slices.Concat(withLists(recorder.Uses()), webhookUses(embedded.Uses()), handedOn(t, c))
	require.Empty(t, access.Compare(ownGrants(t, objs), recorder.Uses()).Missing, "our own code lives on what is granted for Cluster API's")
	unused := access.Compare(ownGrants(t, objs), used).Unused
	require.Equal(t, slices.Sorted(maps.Keys(notSeen)), unused, "granted, and never asked for: take it out of the markers, or say in notSeen what it is for")
}

// notSeen are grants that no test can make the manager use, with what they are for.
var notSeen = map[string]string{
	"patch events":                                                                          "an event that comes again is counted up in the one that is there, some minutes later",
	"patch events.events.k8s.io":                                                            "the same",
	"get machinesets.cluster.x-k8s.io":                                                      "who owns the CAPI Machine of a machine that came from a backup; see controllers/machine TestRestore_ownerIsNotThere",
	"get *.controlplane.cluster.x-k8s.io":                                                   "the same",
	"update nodedrivers/finalizers.management.cattle.io":                                    "asked for by an API server with OwnerReferencesPermissionEnforcement",
	"update clusters/finalizers.provisioning.cattle.io":                                     "the same",
	"update serverscans/finalizers.rke.cattle.io":                                           "the same",
	"update clusterroles/finalizers.rbac.authorization.k8s.io drover-manager":               "the same",
	"update clusterroles/finalizers.rbac.authorization.k8s.io drover-system-drover-manager": "the same",
	"get clusterroles.rbac.authorization.k8s.io drover-system-drover-manager":               "its name when clusterctl installed it; see install TestObjects",
}

// TestManagerRole_generated: the role that is installed is the one that the source asks for.
func TestManagerRole_generated(t *testing.T) {
	content, err := os.ReadFile("../../charts/drover/rbac/role.yaml")
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(content, role))
	asked := slices.Concat(access.Grants(access.Markers(t, "../../capi")), markedGrants(t))
	got := access.Compare(access.Grants(role.Rules), asked)
	require.Empty(t, got.Missing, "run make generate")
	require.Empty(t, got.Unused, "run make generate")
}

// embed starts the manager with Cluster API in it.
func (s *story) embed(config *rest.Config, token string) *access.Recorder {
	s.Helper()
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(s, s.client.List(s.Context(), crds))
	for _, crd := range crds.Items {
		if strings.HasSuffix(crd.Spec.Group, "cluster.x-k8s.io") {
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, capi.InstalledByLabel, capi.InstalledByValue)
			require.NoError(s, s.client.Patch(s.Context(), &crd, client.RawPatch("application/merge-patch+json", []byte(patch))))
		}
	}
	recorder := access.NewRecorder(s, config)
	stop := startManager(s.T, recorder.Kubeconfig(s, token), "--capi=embedded", "--leader-elect")
	awaitActive(s.T, s.client, "digitalocean")
	stop()
	return recorder
}

// withLists adds the right to list to that to watch: an informer lists where the API server cannot stream a list.
func withLists(uses []access.Grant) []access.Grant {
	for _, use := range uses {
		if use.Verb == "watch" {
			use.Verb = "list"
			uses = append(uses, use)
		}
	}
	return uses
}

func webhookUses(uses []access.Grant) []access.Grant {
	return slices.DeleteFunc(uses, func(use access.Grant) bool { return use.Group != "admissionregistration.k8s.io" })
}

func installCAPI(t *testing.T, c client.WithWatch) {
	t.Helper()
	crds, err := capi.CRDs()
	require.NoError(t, err)
	var names []string
	for _, crd := range crds {
		require.NoError(t, c.Create(t.Context(), crd))
		names = append(names, crd.Name)
	}
	require.NoError(t, apply.AwaitEstablished(t.Context(), c, names...))
}

// accountToken applies what `manager manifests` prints, but for what needs other controllers, and gives a token of the
// manager's service account.
func accountToken(t *testing.T, c client.Client, objs []client.Object) string {
	t.Helper()
	for _, obj := range objs {
		if obj.GetObjectKind().GroupVersionKind().Kind != "Deployment" {
			require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), obj.DeepCopyObject().(client.Object))))
		}
	}
	account, token := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: charts.DefaultNamespace, Name: charts.Name}}, &authenticationv1.TokenRequest{}
	require.NoError(t, c.SubResource("token").Create(t.Context(), account, token))
	return token.Status.Token
}

// handedOn is what the manager gives to others: nobody can give what he does not have.
func handedOn(t *testing.T, c client.Client) []access.Grant {
	t.Helper()
	var out []access.Grant
	// Those of Jobs are gone by now.
	for _, operation := range []state.Operation{state.Probe, state.Create, state.Remove} {
		role := jobrunner.Role(jobrunner.Task{Request: jobrunner.Request{Operation: operation, StateSecret: "state"}})
		out = append(out, access.Grants(role.Rules)...)
	}
	roles, clusterRoles := &rbacv1.RoleList{}, &rbacv1.ClusterRoleList{}
	require.NoError(t, c.List(t.Context(), roles))
	require.NoError(t, c.List(t.Context(), clusterRoles))
	for _, role := range roles.Items {
		clusterRoles.Items = append(clusterRoles.Items, rbacv1.ClusterRole{ObjectMeta: role.ObjectMeta, Rules: role.Rules})
	}
	for _, role := range clusterRoles.Items {
		if slices.ContainsFunc(role.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
			return slices.Contains([]string{"drover-manager", "drover-machine", "drover-nodedriver", "drover-rkebootstrap"}, entry.Manager)
		}) {
			out = append(out, access.Grants(role.Rules)...)
		}
	}
	return out
}

// ownGrants are all that the manager may do, but for what only the embedded Cluster API needs.
func ownGrants(t *testing.T, objs []client.Object) []access.Grant {
	t.Helper()
	out := markedGrants(t)
	for _, obj := range objs {
		isManagers := obj.GetName() != "drover-manager-lease" // which is for users
		if role := (&rbacv1.Role{}); isManagers && obj.GetObjectKind().GroupVersionKind().Kind == "Role" {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(*unstructured.Unstructured).Object, role))
			out = append(out, access.Grants(role.Rules)...)
		}
	}
	return out
}

// markedGrants are what the markers in our source ask for.
func markedGrants(t *testing.T) []access.Grant {
	t.Helper()
	var out []access.Grant
	for _, dir := range []string{"controllers/machine", "controllers/managementcluster", "controllers/nodedriver", "controllers/provisioningcluster", "controllers/rkebootstrap", "controllers/rkecluster", "controllers/rkecontrolplane", "controllers/serverscan", "install", "cmd/manager"} {
		rules := access.Markers(t, filepath.Join("../..", dir))
		require.NotEmpty(t, rules, dir)
		out = append(out, access.Grants(rules)...)
	}
	return out
}

func lines(grants []access.Grant) []string {
	var out []string
	for _, grant := range grants {
		out = append(out, grant.String())
	}
	slices.Sort(out)
	return out
}

// story is all that a manager does in its life, on a real API server. The test plays users, Cluster API and the Jobs' pods.
type story struct {
	*testing.T
	client client.WithWatch
	// namespace of the machines.
	namespace string
}

// setting is what is there before the manager starts: among it leftovers that it has to take away or to renew.
func (s *story) setting() {
	s.Helper()
	require.NoError(s, s.client.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	leftover := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}
	expired := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: "drover-serving-cert"}, StringData: map[string]string{"tls.crt": "expired"}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	testkit.ExpectApplied(s, s.client, leftover, expired, cluster,
		s.secret("bootstrap", "value", "#!/bin/sh\n"), s.secret("cred", "accessToken", "marker-token"))
	infra := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "c1", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))}}}
	require.NoError(s, s.client.Create(s.Context(), infra))
}

func (s *story) secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, StringData: map[string]string{key: value}}
}

// registerDriver probes an external driver twice: the first Job fails.
func (s *story) registerDriver() {
	s.Helper()
	nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v3.NodeDriverSpec{
		URL: "https://198.18.0.1/docker-machine-driver-acme", Checksum: strings.Repeat("e3", 32), Active: true}}
	require.NoError(s, s.client.Create(s.Context(), nd))
	s.play(driver.CacheNamespace, "probe-acme-1", state.Result{Outcome: state.Failed, Class: rkev1.ClassInvalid, Reason: "ChecksumMismatch", Message: "no"})
	testkit.Eventually(s, patience, func() error { return hasReason(s.T, s.client, nd, "ChecksumMismatch") })
	s.annotate(nd, rkev1.RetryAnnotation, "again")
	// A probe that still runs is ended when somebody asks for another.
	testkit.Eventually(s, patience, func() error { return s.exists(driver.CacheNamespace, "probe-acme-2") })
	s.annotate(nd, rkev1.RetryAnnotation, "once more")
	flags, err := json.Marshal([]crdgen.Flag{{Name: "acme-region", Type: crdgen.String}})
	require.NoError(s, err)
	s.play(driver.CacheNamespace, "probe-acme-3", state.Result{Outcome: state.Succeeded, Probe: &state.ProbeReport{Digest: strings.Repeat("ab", 32), Flags: flags}})
	awaitActive(s.T, s.client, "acme")
}

// forgetDriver deletes an external driver while a machine still uses it.
func (s *story) forgetDriver() {
	s.Helper()
	machine := machineOf(s.namespace, "last", "AcmeMachine", "")
	require.NoError(s, s.client.Create(s.Context(), machine))
	nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	testkit.Eventually(s, patience, func() error {
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(nd), nd); err != nil || len(nd.Finalizers) == 0 {
			return fmt.Errorf("it is not held: %w", err)
		}
		return nil
	})
	require.NoError(s, s.client.Delete(s.Context(), nd))
	testkit.Eventually(s, patience, func() error { return hasReason(s.T, s.client, nd, v3.DeletionBlockedReason) })
	require.NoError(s, s.client.Delete(s.Context(), machine))
	s.awaitGone(nd)
}

// machineOfCluster makes a CAPI Machine with its infrastructure, as Cluster API does; changes are made to both before.
func (s *story) machineOfCluster(name string, changes ...func(owner *clusterv1.Machine, obj *unstructured.Unstructured)) *unstructured.Unstructured {
	s.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: "c1"}
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels}, Spec: clusterv1.MachineSpec{
		ClusterName: "c1", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group, Kind: "DigitaloceanMachine", Name: name}}}
	obj := machineOf(s.namespace, name, "DigitaloceanMachine", "cred")
	obj.SetLabels(labels)
	for _, change := range changes {
		change(owner, obj)
	}
	require.NoError(s, s.client.Create(s.Context(), owner))
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))})
	require.NoError(s, s.client.Create(s.Context(), obj))
	return obj
}

// machineLife fails once, comes up, and goes.
func (s *story) machineLife() {
	s.Helper()
	obj := s.machineOfCluster("m1")
	s.play(s.namespace, "m1-create-1", state.Result{Outcome: state.Failed, Class: rkev1.ClassInvalid, Message: "no such region", ServerMayExist: false})
	testkit.Eventually(s, patience, func() error { return s.machineReason(obj, rkev1.CreateJobCondition, rkev1.AttemptsExhaustedReason) })
	s.annotate(obj, rkev1.RetryAnnotation, "again")
	s.play(s.namespace, "m1-create-2", state.Result{Outcome: state.Succeeded})
	testkit.Eventually(s, patience, func() error { return s.machineReason(obj, rkev1.ReadyCondition, rkev1.ReadyReason) })
	require.NoError(s, s.client.Delete(s.Context(), obj.DeepCopy()))
	s.play(s.namespace, "m1-rm-1", state.Result{Outcome: state.Succeeded})
	s.awaitGone(obj)
}

// deliverPlan gives the first server of a cluster its plan.
func (s *story) deliverPlan() {
	s.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: "c2"}
	owned := func(name string, owner client.Object, kind schema.GroupVersionKind) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "c2"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c2"},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "c2"}}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	testkit.ExpectApplied(s, s.client, cluster)
	clusterKind := clusterv1.GroupVersion.WithKind("Cluster")
	control := &rkev1.RKEControlPlane{ObjectMeta: owned("c2", cluster, clusterKind)}
	control.Spec.KubernetesVersion = "v1.36.3+k3s1"
	machine := &clusterv1.Machine{ObjectMeta: owned("server", cluster, clusterKind), Spec: clusterv1.MachineSpec{ClusterName: "c2",
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "server"}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "DigitaloceanMachine", Name: "server"}}}
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: "c2", rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true"}
	machine.Status.Initialization.InfrastructureProvisioned = new(true)
	machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}}
	testkit.ExpectApplied(s, s.client, control, machine)
	bootstrap := &rkev1.RKEBootstrap{ObjectMeta: owned("server", machine, clusterv1.GroupVersion.WithKind("Machine"))}
	bootstrap.Labels = map[string]string{clusterv1.ClusterNameLabel: "c2", rkev1.MachineIDLabel: "id"}
	require.NoError(s, s.client.Create(s.Context(), bootstrap))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "server-machine-plan"}}
	testkit.Eventually(s, patience, func() error { return s.client.Get(s.Context(), client.ObjectKeyFromObject(secret), secret) })
	// No server is made before that.
	require.NoError(s, s.client.Patch(s.Context(), machine, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerID":"digitalocean://9"}}`))))
	testkit.Eventually(s, patience, func() error {
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || len(secret.Data["plan"]) == 0 {
			return errors.Join(err, errors.New("it has no plan"))
		}
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(machine), machine); err != nil || meta.FindStatusCondition(machine.Status.Conditions, rkev1.ReconciledCondition) == nil {
			return errors.Join(err, errors.New("nothing is told of it"))
		}
		return nil
	})
	secret.Data["applied-checksum"] = []byte("of an earlier plan")
	require.NoError(s, s.client.Update(s.Context(), secret))
	testkit.Eventually(s, patience, func() error {
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(machine), machine); err != nil || !annotations.HasSkipRemediation(machine) {
			return errors.Join(err, errors.New("nothing keeps the only server from being replaced"))
		}
		return nil
	})
	// Its cluster is not that of the machines that follow.
	for _, obj := range []client.Object{bootstrap, machine, control, cluster, secret} {
		require.NoError(s, s.client.Delete(s.Context(), obj))
	}
}

// scanServers looks for orphans.
// clusterLife renders a provisioning Cluster, takes a pool out of it, and deletes its management Cluster. It deletes
// another Cluster itself.
func (s *story) clusterLife() {
	s.Helper()
	pools := make([]provv1.MachinePool, 2)
	for i, name := range []string{"server", "workers"} {
		config := &unstructured.Unstructured{Object: map[string]any{"region": "nyc3"}}
		config.SetGroupVersionKind(rkev1.MachineConfigGroupVersion.WithKind("DigitaloceanConfig"))
		config.SetNamespace(s.namespace)
		config.SetName(name)
		require.NoError(s, s.client.Create(s.Context(), config))
		pools[i] = provv1.MachinePool{Name: name, WorkerRole: true, EtcdRole: i == 0, ControlPlaneRole: i == 0, UnhealthyNodeTimeout: &metav1.Duration{Duration: time.Hour},
			MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: name}}
	}
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "whole"}, Spec: provv1.ClusterSpec{
		KubernetesVersion: "v1.36.3+k3s1", CloudCredentialSecretName: "cred", RKEConfig: &provv1.RKEConfig{MachinePools: pools}}}
	require.NoError(s, s.client.Create(s.Context(), cluster))
	rendered := func(pools int) {
		s.Helper()
		testkit.Eventually(s.T, time.Minute, func() error {
			found := &clusterv1.MachineDeploymentList{}
			err := s.client.List(s.Context(), found, client.InNamespace(s.namespace), client.MatchingLabels{rkev1.ClusterNameLabel: cluster.Name})
			if err == nil && len(found.Items) != pools {
				err = fmt.Errorf("%d MachineDeployments", len(found.Items))
			}
			return err
		})
	}
	rendered(2)
	testkit.ExpectExists(s.T, s.client, cluster)
	before := cluster.DeepCopy()
	cluster.Spec.RKEConfig.MachinePools = cluster.Spec.RKEConfig.MachinePools[:1]
	require.NoError(s, s.client.Patch(s.Context(), cluster, client.MergeFrom(before)))
	rendered(1)
	testkit.ExpectExists(s.T, s.client, cluster)
	template := &unstructured.UnstructuredList{}
	template.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachineTemplateList"))
	testkit.Eventually(s.T, time.Minute, func() error {
		err := s.client.List(s.Context(), template, client.InNamespace(s.namespace), client.MatchingLabels{rkev1.ClusterNameLabel: cluster.Name})
		if err == nil && len(template.Items) != 1 {
			err = fmt.Errorf("%d templates", len(template.Items))
		}
		return err
	})
	require.NoError(s, s.client.Delete(s.Context(), s.management(cluster)))
	s.awaitGone(cluster)
	s.awaitGone(s.management(cluster))
	empty := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "empty"}, Spec: provv1.ClusterSpec{
		KubernetesVersion: "v1.36.3+k3s1", RKEConfig: &provv1.RKEConfig{}}}
	require.NoError(s, s.client.Create(s.Context(), empty))
	testkit.Eventually(s.T, time.Minute, func() error {
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(empty), empty); err != nil || empty.Status.ClusterName == "" {
			return fmt.Errorf("no management Cluster: %w", err)
		}
		return nil
	})
	require.NoError(s, s.client.Delete(s.Context(), empty))
	s.awaitGone(empty)
	s.awaitGone(s.management(empty))
}

func (s *story) management(cluster *provv1.Cluster) *v3.Cluster {
	s.Helper()
	require.NotEmpty(s, cluster.Status.ClusterName)
	return &v3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster.Status.ClusterName}}
}

func (s *story) scanServers() {
	s.Helper()
	scan := &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "look"},
		Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred"}}
	require.NoError(s, s.client.Create(s.Context(), scan))
	s.play(s.namespace, "look-scan-1", state.Result{Outcome: state.Succeeded, Scan: &state.ScanReport{}})
	testkit.Eventually(s, patience, func() error {
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(scan), scan); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(scan.Status.Conditions, rkev1.ScanDoneCondition) {
			return fmt.Errorf("the scan is not done: %+v", scan.Status.Conditions)
		}
		return nil
	})
	// One that was done long ago goes by itself.
	scan.Status.CompletionTime = &metav1.Time{Time: time.Now().Add(-2 * time.Hour)}
	require.NoError(s, s.client.Status().Update(s.Context(), scan))
	s.awaitGone(scan)
}

// scansByItself: the credential that a machine uses is looked with without anybody asking.
func (s *story) scansByItself() {
	s.Helper()
	testkit.Eventually(s, patience, func() error {
		list := &rkev1.ServerScanList{}
		if err := s.client.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("no ServerScan was made")
		}
		require.Equal(s, rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred", TTLSecondsAfterFinished: new(int32(3610))}, list.Items[0].Spec)
		return nil
	})
}

// cancelledLife is deleted while its create Job runs, in a namespace that goes with it.
func (s *story) cancelledLife() {
	s.Helper()
	obj := s.machineOfCluster("m2")
	testkit.Eventually(s, patience, func() error { return s.exists(s.namespace, "m2-create-1") })
	s.podOf("m2-create-1")
	s.write(s.namespace, "m2-create-1", state.Result{Outcome: state.Cancelled, ServerMayExist: true})
	require.NoError(s, s.client.Delete(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	require.NoError(s, s.client.Delete(s.Context(), obj.DeepCopy()))
	testkit.Eventually(s, patience, func() error { return s.collect(s.namespace, "m2-create-1") })
	refuge := "refuge-" + string(obj.GetUID())
	s.play(driver.CacheNamespace, jobrunner.JobName(refuge, state.Remove, 1), state.Result{Outcome: state.Succeeded})
	s.awaitGone(obj)
}

// podOf plays the Job controller: a Job gets its pod, which no node has.
func (s *story) podOf(job string) {
	s.Helper()
	of := testkit.ExpectExists(s, s.client, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: job}})
	require.NoError(s, s.client.Create(s.Context(), &corev1.Pod{Spec: of.Spec.Template.Spec, ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: job + "-x",
		Labels: of.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, batchv1.SchemeGroupVersion.WithKind("Job"))}}}))
}

// collect plays the garbage collector for a Job that is deleted in the foreground.
func (s *story) collect(namespace, name string) error {
	s.Helper()
	job := &batchv1.Job{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, job); err != nil {
		return client.IgnoreNotFound(err)
	}
	if job.DeletionTimestamp.IsZero() {
		return fmt.Errorf("the Job %s was not deleted", name)
	}
	job.Finalizers = nil
	return s.client.Update(s.Context(), job)
}

func (s *story) exists(namespace, job string) error {
	s.Helper()
	return s.client.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: job}, &batchv1.Job{})
}

// play waits for a Job and is its pod and the Job controller.
func (s *story) play(namespace, name string, result state.Result) {
	s.Helper()
	testkit.Eventually(s, patience, func() error { return s.exists(namespace, name) })
	s.write(namespace, name, result)
	testkit.EndJob(s, s.client, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, result.Outcome == state.Succeeded, "", time.Now())
}

// write plays what the pod writes into the state Secret.
func (s *story) write(namespace, job string, result state.Result) {
	s.Helper()
	asked := testkit.ExpectExists(s, s.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: job}})
	var request jobrunner.Request
	require.NoError(s, json.Unmarshal(asked.Data[jobrunner.RequestKey], &request))
	result.Operation, result.Attempt, result.StartTime, result.EndTime = request.Operation, request.Attempt, time.Now(), time.Now()
	secret := testkit.ExpectExists(s, s.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.StateSecret}})
	before := secret.DeepCopy()
	secret.Data = map[string][]byte{}
	for key, document := range map[string]any{
		state.ResultKey:  result,
		state.JournalKey: state.Journal{Operation: request.Operation, Attempt: request.Attempt, Phase: state.PhaseIntent, InstanceName: request.InstanceName},
		state.ServerKey:  state.Server{InstanceID: "1", ProviderID: "digitalocean://1", Addresses: []state.Address{{Type: "ExternalIP", Address: "198.18.0.7"}}},
	} {
		raw, err := json.Marshal(document)
		require.NoError(s, err)
		secret.Data[key] = raw
	}
	secret.Data[state.ExtractedConfigKey] = []byte("a tar.gz")
	require.NoError(s, s.client.Patch(s.Context(), secret, client.MergeFrom(before)))
}

func (s *story) annotate(obj client.Object, key, value string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	require.NoError(s, s.client.Patch(s.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func (s *story) machineReason(obj *unstructured.Unstructured, condition, reason string) error {
	s.Helper()
	if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == condition && fields["reason"] == reason {
			return nil
		}
	}
	return fmt.Errorf("waiting for %s/%s: %v", condition, reason, conditions)
}

func (s *story) awaitGone(obj client.Object) {
	s.Helper()
	testkit.Eventually(s, patience, func() error {
		err := s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj)
		if client.IgnoreNotFound(err) != nil || err != nil {
			return client.IgnoreNotFound(err)
		}
		return fmt.Errorf("%s is still there: %v", obj.GetName(), obj)
	})
}
