package rkebootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/api/connect"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/rkebootstrap"
	"github.com/drover-project/drover/endpoint/agents"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	crds, err := capi.CRDs()
	own, ownErr := charts.CRDs()
	if err = errors.Join(err, ownErr); err != nil {
		panic(err)
	}
	testkit.Main(m, testkit.WithCRDs(append(crds, own...)...))
}

// world is a Machine with its RKEBootstrap, in a Cluster with an RKEControlPlane whose infrastructure is provisioned.
type world struct {
	client.WithWatch
	*testing.T
	obj      *rkev1.RKEBootstrap
	cluster  *clusterv1.Cluster
	control  *rkev1.RKEControlPlane
	machine  *clusterv1.Machine
	endpoint bootstrap.Install
	assets   *agents.Assets
	r        *rkebootstrap.Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), rkev1.AddToScheme(scheme)))
	sum := strings.Repeat("0a", 32)
	w := &world{T: t, WithWatch: testkit.Client(t, scheme), endpoint: bootstrap.Install{Server: "https://manager.test", CAChecksum: sum, Sums: map[string]string{"amd64": sum}}}
	w.r = w.reconciler(w.WithWatch)
	namespace := testkit.Namespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "c1"}
	w.cluster = &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "c1"}}}
	w.control = &rkev1.RKEControlPlane{ObjectMeta: meta}
	w.control.Spec.KubernetesVersion = "v1.34.1+k3s1"
	w.control.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}}
	w.machine = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1"}, Spec: clusterv1.MachineSpec{ClusterName: "c1",
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "b1"}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "AcmeMachine", Name: "m1"}}}
	require.NoError(t, w.Create(t.Context(), w.cluster))
	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	require.NoError(t, w.Status().Update(t.Context(), w.cluster))
	w.control.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c1", UID: w.cluster.UID}} // as Cluster API does
	require.NoError(t, w.Create(t.Context(), w.control))
	w.controlSays(rkev1.WaitingForMachinesReason, "")
	require.NoError(t, w.Create(t.Context(), w.machine))
	w.obj = &rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b1", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.machine, clusterv1.GroupVersion.WithKind("Machine"))}}}
	require.NoError(t, w.Create(t.Context(), w.obj))
	return w
}

func (w *world) reconciler(c client.Client) *rkebootstrap.Reconciler {
	return rkebootstrap.New(rkebootstrap.Options{Client: c, Reader: c, Endpoint: func() bootstrap.Install { return w.endpoint }})
}

// controlSays sets what the control plane is waiting for.
func (w *world) controlSays(reason, message string) {
	w.Helper()
	meta.SetStatusCondition(&w.control.Status.Conditions, metav1.Condition{Type: rkev1.ReconciledCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message})
	require.NoError(w, w.Status().Update(w.Context(), w.control))
}

func (w *world) reconcile() {
	w.Helper()
	testkit.ExpectReconciled(w.T, w.r, w.obj)
	testkit.ExpectExists(w.T, w.WithWatch, w.obj)
}

func (w *world) secret(name string) *corev1.Secret {
	w.Helper()
	return testkit.ExpectExists(w.T, w.WithWatch, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name}})
}

func (w *world) expect(status metav1.ConditionStatus, reason string) string {
	w.Helper()
	return testkit.ExpectCondition(w.T, w.obj, rkev1.ReadyCondition, status, reason).Message
}

// The way of a token: made once, in the script and hashed in the plan Secret; scrubbed from both when the agent has reported.
func TestReconcile(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ReadyReason)
	testkit.ExpectObserved(t, w.obj)
	require.Equal(t, "b1-machine-bootstrap", *w.obj.Status.DataSecretName)
	require.True(t, *w.obj.Status.Initialization.DataSecretCreated)
	require.NotEmpty(t, w.obj.Labels[rkev1.MachineIDLabel])

	data, secret := w.secret("b1-machine-bootstrap"), w.secret("b1-machine-plan")
	token, err := connect.ParseToken(string(data.Data["token"]))
	require.NoError(t, err)
	require.Equal(t, secret.Namespace+"/"+secret.Name, token.Namespace+"/"+token.SecretName)
	require.True(t, token.Matches(string(secret.Data[plan.KeyTokenHash])))
	require.Contains(t, string(data.Data["value"]), "DROVER_TOKEN='"+token.String()+"'")
	require.Contains(t, string(data.Data["value"]), "export HTTPS_PROXY='http://proxy:3128'")
	require.NotContains(t, string(secret.Data[plan.KeyTokenHash]), token.String())
	require.Equal(t, w.obj.Labels[rkev1.MachineIDLabel], secret.Labels[rkev1.MachineIDLabel])

	versions := []string{w.obj.ResourceVersion, data.ResourceVersion, secret.ResourceVersion}
	w.reconcile()
	require.Equal(t, versions, []string{w.obj.ResourceVersion, w.secret(data.Name).ResourceVersion, w.secret(secret.Name).ResourceVersion}, "nothing changed, nothing is written")

	secret.Data[plan.KeyAgentPublicKey], secret.Data[plan.KeyTokenUsed] = []byte("key"), secret.Data[plan.KeyTokenHash]
	require.NoError(t, w.Update(t.Context(), secret))
	w.reconcile()
	require.Equal(t, token.String(), string(w.secret(data.Name).Data["token"]), "its answer may be lost: it asks again")

	secret = w.secret(secret.Name)
	secret.Data[plan.KeyAgentStatus] = []byte("{}")
	require.NoError(t, w.Update(t.Context(), secret))
	w.reconcile()
	data, secret = w.secret(data.Name), w.secret(secret.Name)
	require.NotContains(t, secret.Data, plan.KeyTokenHash)
	require.Contains(t, secret.Annotations, rkev1.TokenBurnedAnnotation, "its agent's reports wake nobody")
	require.Contains(t, data.Annotations, rkev1.TokenBurnedAnnotation)
	require.Equal(t, "key", string(secret.Data[plan.KeyAgentPublicKey]))
	require.NotContains(t, data.Data, "token")
	require.NotContains(t, string(data.Data["value"]), token.String())
	require.NotContains(t, fmt.Sprint(data.Annotations, data.ManagedFields), token.String())
	w.expect(metav1.ConditionTrue, rkev1.ReadyReason)
}

// Another create attempt, whose server is another, gets a token of its own, also when the first one's agent has registered and reported.
func TestReconcile_anotherAttempt(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	data := func() *corev1.Secret { return w.secret("b1-machine-bootstrap") }
	change := func(name string, do func(*corev1.Secret)) {
		secret := w.secret(name)
		do(secret)
		require.NoError(t, w.Update(t.Context(), secret))
		w.reconcile()
	}
	wants := func(attempt string) {
		change("b1-machine-bootstrap", func(s *corev1.Secret) { s.Annotations[rkev1.CreateAttemptAnnotation] = attempt })
		require.Equal(t, attempt, data().Annotations[rkev1.ArmedForAnnotation])
	}
	// registers has an agent register by the token that there is, and report, as package agents has it.
	registers := func(key string) {
		change("b1-machine-plan", func(s *corev1.Secret) {
			s.Data[plan.KeyAgentPublicKey], s.Data[plan.KeyTokenUsed], s.Data[plan.KeyAgentStatus] = []byte(key), s.Data[plan.KeyTokenHash], []byte("{}")
		})
	}
	first := string(data().Data["token"])
	require.Equal(t, "1", data().Annotations[rkev1.ArmedForAnnotation])
	version := data().Annotations[rkev1.DataVersionAnnotation]
	wants("2")
	require.Equal(t, first, string(data().Data["token"]), "nobody has used it")

	registers("first")
	require.NotContains(t, data().Data, "token")
	wants("3")
	second := string(data().Data["token"])
	require.NotEmpty(t, second)
	require.NotEqual(t, first, second)
	require.Contains(t, string(data().Data["value"]), second)
	token, err := connect.ParseToken(second)
	require.NoError(t, err)
	secret := w.secret("b1-machine-plan")
	require.True(t, token.Matches(string(secret.Data[plan.KeyTokenHash])))
	require.NotContains(t, secret.Annotations, rkev1.TokenBurnedAnnotation)
	require.Equal(t, "first", string(secret.Data[plan.KeyAgentPublicKey]), "the server may be the first one")
	w.reconcile()
	require.Equal(t, second, string(data().Data["token"]), "what the first agent reported does not burn it")

	registers("second")
	require.NotContains(t, data().Data, "token")
	require.Contains(t, data().Annotations, rkev1.TokenBurnedAnnotation)
	require.Equal(t, version, data().Annotations[rkev1.DataVersionAnnotation], "tokens are no news")
	w.endpoint.Server = "https://another.test"
	w.reconcile()
	require.NotEqual(t, version, data().Annotations[rkev1.DataVersionAnnotation])

	wants("4")
	w.machine.Status.NodeRef.Name = "node"
	require.NoError(t, w.Status().Update(t.Context(), w.machine))
	w.reconcile()
	require.NotContains(t, data().Data, "token", "the server is the second one after all, and a Node")
}

// A backup brings back what it has, in any order and without owners: nothing is made in its place where the server is made, and all of it is the bootstrap's again.
func TestReconcile_restored(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	meta := metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "b1-machine-plan"}
	script := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "b1-machine-bootstrap"}}
	secret, account, role, binding := &corev1.Secret{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}
	kept := []client.Object{account, role, binding, script, secret}
	for _, obj := range kept {
		testkit.ExpectExists(t, w.WithWatch, obj)
		require.NoError(t, w.Delete(t.Context(), obj))
		obj.SetResourceVersion("")
		obj.SetUID("")
		obj.SetOwnerReferences(nil)
	}
	w.machine.Spec.ProviderID = "acme://1"
	require.NoError(t, w.Update(t.Context(), w.machine))
	token := string(script.Data["token"])
	for _, obj := range kept {
		w.reconcile()
		require.Contains(t, w.expect(metav1.ConditionFalse, rkev1.AgentSecretsMissingReason), "the Secrets b1-machine-bootstrap and b1-machine-plan, which authenticate its agent, do not")
		require.NoError(t, w.Create(t.Context(), obj))
		if obj == client.Object(script) {
			break
		}
	}
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ReadyReason)
	require.Equal(t, token, string(w.secret(script.Name).Data["token"]))
	for _, obj := range kept {
		testkit.ExpectExists(t, w.WithWatch, obj)
		require.True(t, metav1.IsControlledBy(obj, w.obj), obj.GetName())
	}

	// What the backup has of tokens is changed as if it had always been ours: its writer owns those fields.
	secret = w.secret(secret.Name)
	secret.Data[plan.KeyAgentPublicKey], secret.Data[plan.KeyTokenUsed], secret.Data[plan.KeyAgentStatus] = []byte("key"), secret.Data[plan.KeyTokenHash], []byte("{}")
	require.NoError(t, w.Update(t.Context(), secret))
	w.reconcile()
	w.reconcile() // its own writes wake it
	require.NotContains(t, w.secret(script.Name).Data, "token")
	require.NotContains(t, w.secret(secret.Name).Data, plan.KeyTokenHash)
	for _, name := range []string{script.Name, secret.Name} {
		burned := w.secret(name)
		require.NoError(t, w.Delete(t.Context(), burned))
		burned.ResourceVersion, burned.UID, burned.OwnerReferences = "", "", nil
		require.NoError(t, w.Create(t.Context(), burned))
	}
	w.readmit("once")
	require.NotEmpty(t, w.secret(script.Name).Data["token"])
	for _, name := range []string{script.Name, secret.Name} {
		require.NotContains(t, w.secret(name).Annotations, rkev1.TokenBurnedAnnotation, "what its agent does has to wake it")
	}

	// Without a backup the user can have the agent let in anew.
	for _, name := range []string{script.Name, secret.Name} {
		require.NoError(t, w.Delete(t.Context(), w.secret(name)))
	}
	w.readmit("twice")
	w.expect(metav1.ConditionTrue, rkev1.ReadyReason)
	require.NotEqual(t, token, string(w.secret(script.Name).Data["token"]))

	// That he asked once is not kept: the next backup is waited for again.
	for _, name := range []string{script.Name, secret.Name} {
		require.NoError(t, w.Delete(t.Context(), w.secret(name)))
	}
	w.reconcile()
	w.expect(metav1.ConditionFalse, rkev1.AgentSecretsMissingReason)
}

// readmit asks for a token for an agent that is not known.
func (w *world) readmit(value string) {
	w.Helper()
	testkit.ExpectExists(w.T, w.WithWatch, w.obj)
	metav1.SetMetaDataAnnotation(&w.obj.ObjectMeta, rkev1.ReadmitAgentAnnotation, value)
	require.NoError(w, w.Update(w.Context(), w.obj))
	w.reconcile()
}

// What a server was told is not changed afterwards.
func TestSpec_staysAsItIs(t *testing.T) {
	w := newWorld(t)
	w.obj.Spec.ClusterName = "another"
	require.ErrorContains(t, w.Update(t.Context(), w.obj), "the spec of an RKEBootstrap cannot be changed")
}

// A crash after each write leaves one token and no other.
func TestReconcile_interrupted(t *testing.T) {
	for n := 1; ; n++ {
		w, count := newWorld(t), 0
		fail := func() error {
			if count++; count == n {
				return errors.New("the answer is lost")
			}
			return nil
		}
		broken := interceptor.NewClient(w.WithWatch, interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				return errors.Join(c.Apply(ctx, obj, opts...), fail())
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				return errors.Join(c.Patch(ctx, obj, patch, opts...), fail())
			},
		})
		_, err := w.reconciler(broken).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.obj)})
		require.Equal(t, count >= n, err != nil)
		w.reconcile()
		token, parseErr := connect.ParseToken(string(w.secret("b1-machine-bootstrap").Data["token"]))
		require.NoError(t, parseErr)
		require.True(t, token.Matches(string(w.secret("b1-machine-plan").Data[plan.KeyTokenHash])), "write %d", n)
		if err == nil {
			require.Greater(t, n, 5, "the Secrets, the account, its Role and binding, the machine's ID")
			return
		}
	}
}

// What it waits for, and what only a user can mend.
func TestReconcile_waits(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(*world)
		reason string
		says   string
	}{
		"no Machine": {func(w *world) { w.obj.OwnerReferences = nil; require.NoError(w, w.Update(w.Context(), w.obj)) },
			rkev1.WaitingForOwnerReason, "spec.bootstrap.configRef"},
		"no infrastructure": {func(w *world) {
			w.cluster.Status.Initialization.InfrastructureProvisioned = new(false)
			require.NoError(w, w.Status().Update(w.Context(), w.cluster))
		}, rkev1.WaitingForClusterReason, "the infrastructure of Cluster c1 is not provisioned yet"},
		"no control plane":                      {func(w *world) { require.NoError(w, w.Delete(w.Context(), w.control)) }, rkev1.WaitingForClusterReason, "the RKEControlPlane c1 of Cluster c1 does not exist"},
		"a control plane that nobody looked at": {func(w *world) { w.controlSays(rkev1.WaitingForOwnerReason, "") }, rkev1.WaitingForClusterReason, "the RKEControlPlane c1 is not reconciled yet"},
		"a control plane without an owner yet": {func(w *world) {
			w.control.OwnerReferences = nil
			require.NoError(w, w.Update(w.Context(), w.control))
		}, rkev1.WaitingForClusterReason, "the RKEControlPlane c1 has no owner yet"},
		"a control plane that another Cluster has": {func(w *world) {
			first := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c0"}, Spec: w.cluster.Spec}
			require.NoError(w, w.Create(w.Context(), first))
			ref := w.control.OwnerReferences[0]
			ref.Name, ref.UID = first.Name, first.UID
			w.control.OwnerReferences = []metav1.OwnerReference{ref, w.control.OwnerReferences[0]}
			require.NoError(w, w.Update(w.Context(), w.control))
		}, rkev1.ControlPlaneTakenReason, "the RKEControlPlane c1 belongs to Cluster c0"},
		"a version that nobody knows": {func(w *world) {
			w.controlSays(rkev1.KubernetesVersionUnknownReason, "nothing of 1.99\n* Change it")
		}, rkev1.KubernetesVersionUnknownReason, "Drover creates no server while the RKEControlPlane c1 reports: nothing of 1.99"},
		"a cluster whose authority is gone": {func(w *world) { w.controlSays(rkev1.ClusterSecretMissingReason, "c1-ca is gone") }, rkev1.ClusterSecretMissingReason, "reports: c1-ca is gone"},
		"a cluster whose data is lost":      {func(w *world) { w.controlSays(rkev1.EtcdLostReason, "no data") }, rkev1.EtcdLostReason, "reports: no data"},
		"a cluster without a server":        {func(w *world) { w.controlSays(rkev1.NoEtcdMachineReason, "none has etcd") }, rkev1.NoEtcdMachineReason, "reports: none has etcd"},
		"a Cluster that is being deleted":   {func(w *world) { w.controlSays(rkev1.DeletingReason, "it goes") }, rkev1.DeletingReason, "reports: it goes"},
		"another's control plane": {func(w *world) {
			w.cluster.Spec.ControlPlaneRef.APIGroup, w.cluster.Spec.ControlPlaneRef.Kind = "controlplane.cluster.x-k8s.io", "KubeadmControlPlane"
			require.NoError(w, w.Update(w.Context(), w.cluster))
		}, rkev1.ControlPlaneForeignReason, `is "KubeadmControlPlane", not an RKEControlPlane`},
		"paused": {func(w *world) {
			w.cluster.Spec.Paused = new(true)
			require.NoError(w, w.Update(w.Context(), w.cluster))
		}, clusterv1.PausedReason, "paused"},
		"Windows": {func(w *world) {
			w.machine.Labels = map[string]string{rkev1.OSLabel: "windows"}
			require.NoError(w, w.Update(w.Context(), w.machine))
		}, rkev1.OperatingSystemUnsupportedReason, "Drover has no agent for Windows"},
		"no server URL": {func(w *world) { w.endpoint = bootstrap.Install{} }, rkev1.ServerURLMissingReason, "set its flag --server-url"},
		"a bad variable": {func(w *world) {
			w.control.Spec.AgentEnvVars[0].Name = "PATH"
			require.NoError(w, w.Update(w.Context(), w.control))
		}, rkev1.ConfigInvalidReason, "agentEnvVars[0]: PATH cannot be set"},
		"another's Secret": {func(w *world) {
			require.NoError(w, w.Create(w.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "b1-machine-plan"}}))
		}, rkev1.NameTakenReason, "the Secret b1-machine-plan does not belong to this object"},
		"another's account": {func(w *world) {
			require.NoError(w, w.Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "b1-machine-plan"}}))
		}, rkev1.NameTakenReason, "the ServiceAccount b1-machine-plan does not belong to this object"},
		"the plan Secret of an earlier machine": {func(w *world) {
			require.NoError(w, w.Create(w.Context(), earlierSecret(w)))
		}, rkev1.NameTakenReason, "the Secret b1-machine-plan belongs to an earlier machine of this name"},
		"the plan Secret of an earlier machine, which cannot go": {func(w *world) {
			kept := earlierSecret(w)
			kept.Finalizers = []string{"backup.example/keep"}
			require.NoError(w, w.Create(w.Context(), kept))
			require.NoError(w, w.Delete(w.Context(), kept))
		}, rkev1.NameTakenReason, `Secret b1-machine-plan is being deleted, and Drover creates it again afterwards; its finalizers are ["backup.example/keep"]`},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			tt.change(w)
			w.reconcile()
			require.Contains(t, w.expect(metav1.ConditionFalse, tt.reason), tt.says)
			require.Nil(t, w.obj.Status.DataSecretName)
		})
	}
}

// earlierSecret is what an RKEBootstrap of the same name, which was deleted, has left, with the key of its agent.
func earlierSecret(w *world) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "b1-machine-plan", Labels: map[string]string{rkev1.MachineIDLabel: "earlier"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: rkev1.GroupVersion.String(), Kind: "RKEBootstrap", Name: w.obj.Name, UID: "earlier", Controller: new(true)}}},
		Type: plan.SecretType, Data: map[string][]byte{plan.KeyAgentPublicKey: []byte("its key")},
	}
}

// What comes too late for a server changes nothing for it.
func TestReconcile_versionRefusedLater(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	w.controlSays(rkev1.KubernetesVersionUnknownReason, "nothing of 1.99")
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ReadyReason)

	// A move or a restore drops the status, and what gives the agent its access.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "b1-machine-plan"}}
	require.NoError(t, w.Delete(t.Context(), account))
	w.machine.Spec.Bootstrap.DataSecretName = w.obj.Status.DataSecretName
	require.NoError(t, w.Update(t.Context(), w.machine))
	w.obj.Status = rkev1.RKEBootstrapStatus{}
	require.NoError(t, w.Status().Update(t.Context(), w.obj))
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ReadyReason)
	testkit.ExpectExists(t, w, account)
}
