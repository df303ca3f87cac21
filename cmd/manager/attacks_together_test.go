package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/admission"
	"github.com/drover-project/drover/api/connect"
	agentplan "github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// managerLimit is the memory limit of the manager's Deployment in charts/drover/values.yaml, in MiB.
const managerLimit = 1024

// TestAttacks_together runs five attacks on the manager's memory and time at the same time. The
// attacker's objects are stored while no manager checks them, so that admission does not help, except
// against nested lists: those harm the API server itself.
// Another tenant's machine must become Ready and get its plan in at most twice the quiet time plus
// ten seconds, and the manager must stay below the memory limit of its Deployment.
func TestAttacks_together(t *testing.T) {
	if os.Getenv("DROVER_LOAD") == "" {
		t.Skip("it compares times, so it needs a machine without other load: DROVER_LOAD=1, as in hack/test.sh load")
	}
	t.Setenv("GOMEMLIMIT", "870MiB") // the manager sets it from the pod's limit: memoryShare of 1 GiB
	port := newAgentPort(t)
	w := newTenants(t, port.flags...)
	quiet := max(w.planned(t, "quiet-1"), w.planned(t, "quiet-2"))
	w.requireListsRejected(t)

	w.stop()
	w.removeWebhooks(t)
	w.storeLargePatterns(t)
	w.storeNestedLists(t)
	w.storeForeignKeys(t)
	secrets := w.storeLargePlans(t)
	began := time.Now()
	w.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	attackers.Go(func() { w.touchPlans(ctx, secrets) })
	attackers.Go(func() { port.guessPaths(ctx) })
	t.Cleanup(attackers.Wait)
	t.Cleanup(cancel)
	awaitActive(t, w.admin, "digitalocean")

	var attacked time.Duration
	for i := 0; i < 3 || time.Since(began) < 30*time.Second; i++ {
		attacked = max(attacked, w.planned(t, fmt.Sprintf("attacked-%d", i)))
	}
	peak := w.memory(t)
	t.Logf("Ready with a plan after %s, under attack after %s; peak memory of the manager %d MiB", quiet, attacked, peak)
	require.LessOrEqual(t, attacked, 2*quiet+10*time.Second)
	require.Less(t, peak, managerLimit)
}

// planned makes a cluster of one server for the other tenant, and returns how long its machine takes
// to become Ready and to get its plan.
func (w *tenants) planned(t *testing.T, name string) time.Duration {
	t.Helper()
	began, theirs := time.Now(), w.theirs(t)
	w.storeControlPlane(t, w.admin, w.there, name, rkev1.RKEControlPlaneSpec{})
	machine := machineOf(w.there, name, "DigitaloceanMachine", "cred")
	machine.SetLabels(map[string]string{clusterv1.ClusterNameLabel: name})
	require.NoError(t, w.admin.Create(t.Context(), machine))
	theirs.play(w.there, jobrunner.JobName(name, state.Create, 1), state.Result{Outcome: state.Succeeded})
	testkit.Eventually(t, patience, func() error { return theirs.machineReason(machine, rkev1.ReadyCondition, rkev1.ReadyReason) })
	secret := &corev1.Secret{}
	testkit.Eventually(t, patience, func() error {
		err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.there, Name: agentplan.SecretName(name)}, secret)
		if err == nil && len(secret.Data[agentplan.KeyPlan]) == 0 {
			control := &rkev1.RKEControlPlane{}
			err = w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.there, Name: name}, control)
			return fmt.Errorf("the machine %s has no plan (%w): %+v", name, err, control.Status.Conditions)
		}
		return err
	})
	return time.Since(began)
}

// storeControlPlane writes a cluster with a control plane and one server machine that has an
// RKEBootstrap, all of the same name.
func (w *tenants) storeControlPlane(t *testing.T, c client.Client, ns, name string, spec rkev1.RKEControlPlaneSpec) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: ns, Name: name}
	labels := map[string]string{clusterv1.ClusterNameLabel: name, rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true"}
	reference := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.GroupVersion.Group, Kind: kind, Name: name}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{InfrastructureRef: reference("RKECluster"), ControlPlaneRef: reference("RKEControlPlane")}}
	control := &rkev1.RKEControlPlane{ObjectMeta: meta, Spec: spec}
	control.Spec.KubernetesVersion = "v1.34.1+k3s1"
	infra := &rkev1.RKECluster{ObjectMeta: meta}
	infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "198.18.0.9", Port: 6443}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}, Spec: clusterv1.MachineSpec{ClusterName: name,
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: reference("RKEBootstrap")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group, Kind: "DigitaloceanMachine", Name: name}}}
	for _, obj := range []client.Object{infra, control, cluster, machine, &rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}}} {
		require.NoError(t, c.Create(t.Context(), obj))
	}
}

// storeAttack writes a cluster whose control plane is the attack. Its machine counts as provisioned,
// because a control plane without a provisioned server is not planned in full.
func (w *tenants) storeAttack(t *testing.T, name string, spec rkev1.RKEControlPlaneSpec) {
	t.Helper()
	w.storeControlPlane(t, w.mallory, w.here, name, spec)
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: name}}
	before := machine.DeepCopy()
	machine.Spec.ProviderID = "digitalocean://" + name
	require.NoError(t, w.admin.Patch(t.Context(), machine, client.MergeFrom(before)))
	before = machine.DeepCopy()
	machine.Status.Initialization.InfrastructureProvisioned = new(true)
	machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineExternalIP, Address: "198.18.0.8"}}
	require.NoError(t, w.admin.Status().Patch(t.Context(), machine, client.MergeFrom(before)))
}

func (w *tenants) removeWebhooks(t *testing.T) {
	t.Helper()
	for _, obj := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		obj.SetName(admission.ConfigurationName)
		require.NoError(t, w.admin.Delete(t.Context(), obj))
	}
}

// storeLargePatterns writes nine control planes with ten patterns each. A pattern is as long as the
// schema allows, and takes more than 30 MB when it is compiled.
func (w *tenants) storeLargePatterns(t *testing.T) {
	t.Helper()
	for i := range 9 {
		rewrites := map[string]string{}
		for j := range 10 {
			rewrites["(?:"+strings.Repeat(string(rune('a'+j)), 240)+"){1000}"] = "$0"
		}
		w.storeAttack(t, fmt.Sprintf("pattern-%d", i), specOf(func(s *rkev1.RKEControlPlaneSpec) {
			s.Registries = &rkev1.Registry{Mirrors: map[string]rkev1.Mirror{"docker.io": {Endpoints: []string{"https://198.18.0.1"}, Rewrites: rewrites}}}
		}))
	}
}

// nestedLists is a configuration of so many empty lists, thirty in each other.
func nestedLists(elements int) rkev1.Config {
	const depth = 30
	list := strings.Repeat("[", depth) + strings.Repeat("]", depth)
	raw := "[" + strings.Repeat(list+",", elements/depth) + "[]]"
	return rkev1.Config{"tls-san": apiextensionsv1.JSON{Raw: []byte(raw)}}
}

// requireListsRejected shows that admission rejects 1.3 MB of nested lists. Once stored, they would cost the
// API server seconds for each write of their status.
func (w *tenants) requireListsRejected(t *testing.T) {
	t.Helper()
	control := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "large-lists"}}
	control.Spec.KubernetesVersion = "v1.34.1+k3s1"
	control.Spec.MachineGlobalConfig = nestedLists(650_000)
	require.ErrorContains(t, w.mallory.Create(t.Context(), control), "machineGlobalConfig")
}

// storeNestedLists writes three control planes with as many nested lists as admission allows.
func (w *tenants) storeNestedLists(t *testing.T) {
	t.Helper()
	for i := range 3 {
		w.storeAttack(t, fmt.Sprintf("lists-%d", i), specOf(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig = nestedLists(8_000) }))
	}
}

// storeForeignKeys writes two control planes whose registry has a key of 500 KB in a PEM block of an
// unknown type.
func (w *tenants) storeForeignKeys(t *testing.T) {
	t.Helper()
	key := "-----BEGIN X-----\n" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 380_000)) + "\n-----END X-----\n"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: "foreign-key"}, Type: corev1.SecretTypeTLS,
		StringData: map[string]string{"tls.crt": key, "tls.key": key}}
	require.NoError(t, w.mallory.Create(t.Context(), secret))
	for i := range 2 {
		w.storeAttack(t, fmt.Sprintf("key-%d", i), specOf(func(s *rkev1.RKEControlPlaneSpec) {
			s.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{"registry.example.com": {TLSSecretName: secret.Name}}}
		}))
	}
}

// storeLargePlans writes four plan Secrets of nearly a megabyte.
func (w *tenants) storeLargePlans(t *testing.T) []*corev1.Secret {
	t.Helper()
	raw, err := json.Marshal(agentplan.Plan{Instructions: make([]agentplan.Instruction, 400_000/len("{},"))})
	require.NoError(t, err)
	var secrets []*corev1.Secret
	for i := range 4 {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.here, Name: fmt.Sprintf("large-%d-machine-plan", i)}, Type: agentplan.SecretType,
			Data: map[string][]byte{agentplan.KeyPlan: raw}}
		require.NoError(t, w.mallory.Create(t.Context(), secret))
		secrets = append(secrets, secret)
	}
	t.Logf("each plan has %d bytes", len(raw))
	return secrets
}

// touchPlans changes an annotation of the plan Secrets, twenty times per second, until the context
// ends. Without this limit the API server's own memory grows by gigabytes.
func (w *tenants) touchPlans(ctx context.Context, secrets []*corev1.Secret) {
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-ticks.C
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, i)
		_ = w.mallory.Patch(ctx, secrets[i%len(secrets)].DeepCopy(), client.RawPatch("application/merge-patch+json", patch))
	}
}

// guessPaths sends registrations whose names would be paths of the API server, until the context ends.
func (p *agentPort) guessPaths(ctx context.Context) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for ctx.Err() == nil {
		body, err := json.Marshal(connect.Request{PublicKey: key.Public().(ed25519.PublicKey), Time: time.Now(), Nonce: []byte("n"),
			Namespace: "a/../../" + strings.Repeat("%", 4000), SecretName: "a"})
		if err != nil {
			return
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+connect.Path, bytes.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set(connect.SignatureHeader, connect.Sign(key, body))
		if resp, err := c.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
}

func specOf(change func(*rkev1.RKEControlPlaneSpec)) rkev1.RKEControlPlaneSpec {
	var spec rkev1.RKEControlPlaneSpec
	change(&spec)
	return spec
}
