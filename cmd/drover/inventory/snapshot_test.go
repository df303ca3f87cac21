package inventory_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/state"
)

// shopWorld has one machine with everything that belongs to it.
func shopWorld(t *testing.T) (w *world, m *facts.Machine) {
	t.Helper()
	w = newWorld(t)
	w.apply(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: store}, spec: {infrastructureRef: {apiGroup: rke.cattle.io, kind: RKECluster, name: store}}}`)
	deployment := w.apply(t, pool("MachineDeployment", "pool", "", `status: {phase: ScalingUp, readyReplicas: 1}`))
	set := w.apply(t, pool("MachineSet", "pool-x", owned("MachineDeployment", "pool", deployment.GetUID()), ""))
	capi := w.capiMachine(t, "pool-x-1", "GenericMachine", "web-1", owned("MachineSet", "pool-x", set.GetUID()))
	m = w.decode(t, w.apply(t, `{apiVersion: rke-machine.cattle.io/v1, kind: GenericMachine, metadata: {name: web-1`+
		owned("Machine", "pool-x-1", capi.GetUID())+`, labels: {cluster.x-k8s.io/cluster-name: store}}, spec: {common: {cloudCredentialSecretName: token}}}`))
	w.secret(t, "boot", map[string]string{"value": "SECRET", "format": "cloud-config"})
	w.secret(t, "token", map[string]string{"accessToken": "SECRET"})
	w.secret(t, "web-1-machine-state", map[string]string{
		state.LogKey: "said", state.JournalKey: `{"operation":"create","attempt":2,"phase":"Intent","instanceName":"web-1"}`})
	old, young := w.job(t, "web-1-create-1", m.UID), w.job(t, "web-1-create-2", m.UID)
	w.pod(t, "old-pod", old.Name)
	pod := w.pod(t, "young-pod", young.Name)
	w.event(t, "e2", "GenericMachine", m.Name, m.UID, "second", 2)
	w.event(t, "e1", "Machine", capi.GetName(), capi.GetUID(), "first", 1)
	w.event(t, "e4", "Pod", pod.Name, pod.UID, "fourth", 4)
	w.event(t, "e3", "Job", young.Name, young.UID, "third", 3)
	w.event(t, "e0", "GenericMachine", m.Name, "an-earlier-machine", "never", 0)
	return w, m
}

func pool(kind, name, metadata, status string) string {
	return `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ` + kind + `
metadata: {name: ` + name + metadata + `}
spec:
  clusterName: store
  replicas: 3
  selector: {matchLabels: {pool: x}}
  template: {metadata: {labels: {pool: x}}, spec: {clusterName: store, bootstrap: {dataSecretName: boot}, infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: GenericMachineTemplate, name: x}}}
` + status + "\n"
}

func owned(kind, name string, uid types.UID) string {
	return `, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: ` + kind + `, name: ` + name + `, uid: ` + string(uid) + `, controller: true}]`
}

func (w *world) job(t *testing.T, name string, uid types.UID) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{
		rkev1.MachineUIDLabel: string(uid), rkev1.OperationLabel: "create"}}}
	job.Spec.Template.Spec = podSpec()
	w.make(t, job)
	return job
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{Name: "machine", Image: "none"}}}
}

func (w *world) pod(t *testing.T, name, job string) *corev1.Pod {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "default"}}
	_ = w.Create(t.Context(), account)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{batchv1.JobNameLabel: job}}, Spec: podSpec()}
	w.make(t, pod)
	return pod
}

func (w *world) event(t *testing.T, name, kind, object string, uid types.UID, message string, minute int) {
	t.Helper()
	version := map[string]string{"GenericMachine": "rke-machine.cattle.io/v1", "Job": "batch/v1", "Pod": "v1", "Deployment": "apps/v1"}[kind]
	if version == "" {
		version = "cluster.x-k8s.io/v1beta2"
	}
	w.make(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: w.namespace, Name: object, UID: uid},
		Reason:         "Told", Message: message, LastTimestamp: metav1.NewTime(now.Add(time.Duration(minute) * time.Minute)),
	})
}

func messages(events []corev1.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Message)
	}
	return all
}

func TestSnapshot(t *testing.T) {
	w, m := shopWorld(t)
	target, err := w.Resolve(t.Context(), w.namespace, "web-1")
	require.NoError(t, err)
	s := w.Snapshot(t.Context(), target, w.namespace, "web-1", now)
	require.Empty(t, s.Problems)
	require.Empty(t, s.Unread)
	require.Equal(t, now, s.Now)
	require.Equal(t, m.UID, s.Machine.UID)
	require.Equal(t, "pool-x-1", s.CAPIMachine.Name)
	require.Equal(t, "store", s.Cluster.Name)
	require.Len(t, s.Owners, 2)
	require.Equal(t, "MachineSet pool-x", s.Owners[0].Kind+" "+s.Owners[0].Name)
	require.Equal(t, "MachineDeployment pool ScalingUp", s.Owners[1].Kind+" "+s.Owners[1].Name+" "+s.Owners[1].Phase)
	require.Equal(t, &facts.Secret{Namespace: w.namespace, Name: "boot", Found: true, Keys: []string{"format", "value"}}, s.Bootstrap)
	require.Equal(t, &facts.Secret{Namespace: w.namespace, Name: "token", Found: true, Keys: []string{"accessToken"}}, s.Credential)
	require.Equal(t, "said", s.State.Log)
	require.Equal(t, int32(2), s.State.Journal.Attempt)
	require.Equal(t, []string{"web-1-create-2", "web-1-create-1"}, []string{s.Jobs[0].Name, s.Jobs[1].Name}, "newest first")
	require.Len(t, s.Pods, 1)
	require.Equal(t, "young-pod", s.Pods[0].Name, "of the newest Job")
	require.Equal(t, []string{"first", "second", "third", "fourth"}, messages(s.Events), "oldest first, of these very objects")

	again := w.Attempts(t.Context(), m)
	require.Equal(t, s.State, again.State)
	require.Equal(t, s.Jobs, again.Jobs)
	require.Empty(t, again.Unread)
}

// TestSnapshotUnread: what may not be read is told and marked as unknown; the rest is there. NodeDrivers are not mentioned: the admin of a
// namespace may not read them, and a machine that exists needs none.
func TestSnapshotUnread(t *testing.T) {
	w, _ := shopWorld(t)
	ns := w.namespace
	api := w.as(t, "guest", may("rke-machine.cattle.io", []string{"*"}, []string{"get", "list"}), may("cluster.x-k8s.io", []string{"machines"}, []string{"get"}))
	target, err := api.Resolve(t.Context(), ns, "web-1")
	require.NoError(t, err)
	s := api.Snapshot(t.Context(), target, ns, "web-1", now)
	lacks := func(verb, resource, group, name, where string) string {
		return cannot("guest", verb, resource, group, name, where)
	}
	here := fmt.Sprintf("in the namespace %q", ns)
	require.Equal(t, []string{
		"getting machinesets " + ns + "/pool-x: " + lacks("get", "machinesets", "cluster.x-k8s.io", "pool-x", here),
		"getting clusters " + ns + "/store: " + lacks("get", "clusters", "cluster.x-k8s.io", "store", here),
		"getting Secret " + ns + "/boot: " + lacks("get", "secrets", "", "boot", here),
		"getting Secret " + ns + "/token: " + lacks("get", "secrets", "", "token", here),
		"getting Secret " + ns + "/web-1-machine-state: " + lacks("get", "secrets", "", "web-1-machine-state", here),
		"listing Jobs in " + ns + ": " + lacks("list", "jobs", "batch", "", here),
		"listing events in " + ns + ": " + lacks("list", "events", "", "", here),
	}, s.Problems)
	require.Equal(t, []facts.Part{facts.OwnersPart, facts.ClusterPart, facts.DriverPart, facts.BootstrapPart, facts.CredentialPart,
		facts.StatePart, facts.JobsPart, facts.EventsPart}, s.Unread)
	require.NotNil(t, s.Machine)
	require.NotNil(t, s.CAPIMachine)

	require.Equal(t, []facts.Part{facts.StatePart, facts.JobsPart}, api.Attempts(t.Context(), s.Machine).Unread)
	noPods := w.as(t, "nopods", may("rke-machine.cattle.io", []string{"*"}, []string{"get"}), may("batch", []string{"jobs"}, []string{"list"}))
	s = noPods.Snapshot(t.Context(), inventory.Target{Machine: s.Machine}, ns, "web-1", now)
	require.Len(t, s.Jobs, 2)
	require.False(t, s.Knows(facts.PodsPart))
	require.Contains(t, s.Problems, "listing the pods of Job "+ns+`/web-1-create-2: pods is forbidden: User "nopods" cannot list resource "pods" in API group "" in the namespace "`+ns+`"`)
}

func TestSnapshotOfMissingThings(t *testing.T) {
	w := newWorld(t)
	m := w.decode(t, w.apply(t, `{apiVersion: rke-machine.cattle.io/v1, kind: GenericMachine, metadata: {name: bare, labels: {cluster.x-k8s.io/cluster-name: gone}},
  spec: {common: {cloudCredentialSecretName: "no-such-namespace:token"}}}`))
	s := w.Snapshot(t.Context(), inventory.Target{Machine: m}, w.namespace, "bare", now)
	require.Empty(t, s.Problems)
	require.Nil(t, s.Cluster)
	require.Nil(t, s.CAPIMachine)
	require.Nil(t, s.Bootstrap)
	require.Equal(t, &facts.Secret{Namespace: "no-such-namespace", Name: "token"}, s.Credential)
	require.Equal(t, &facts.State{}, s.State)
	require.Empty(t, s.Jobs)
	require.Empty(t, s.Events)
	require.True(t, s.Knows(facts.ClusterPart), "it was looked for")
}

// TestSnapshotOfOtherOwners: owners of a group that is not Cluster API's are not read, and a chain that leads nowhere ends.
func TestSnapshotOfOtherOwners(t *testing.T) {
	w := newWorld(t)
	w.apply(t, pool("MachineSet", "pool-x", "", ""))
	other := strings.ReplaceAll(owned("MachineSet", "pool-x", "u-1"), "cluster.x-k8s.io/v1beta2", "machine.openshift.io/v1beta1")
	w.capiMachine(t, "foreign", "GenericMachine", "one", other)
	w.capiMachine(t, "dangling", "GenericMachine", "two", owned("MachineSet", "gone", "u-2"))
	for _, name := range []string{"foreign", "dangling"} {
		target, err := w.Resolve(t.Context(), w.namespace, name)
		require.NoError(t, err)
		s := w.Snapshot(t.Context(), target, w.namespace, name, now)
		require.Empty(t, s.Owners, name)
		require.Empty(t, s.Problems, name)
	}
}

// TestSnapshotOfACAPIMachineAlone: the state is that of the machine it refers to, however the user wrote its own name.
func TestSnapshotOfACAPIMachineAlone(t *testing.T) {
	w := newWorld(t)
	w.capiMachine(t, "pool-a", "GenericMachine", "infra-a", "")
	secret := w.secret(t, "infra-a-machine-state", map[string]string{state.JournalKey: `{"operation":"create","attempt":1,"phase":"Intent","instanceName":"infra-a"}`})
	for _, ref := range []string{"pool-a", "machine/pool-a"} {
		target, err := w.Resolve(t.Context(), w.namespace, ref)
		require.NoError(t, err)
		s := w.Snapshot(t.Context(), target, w.namespace, ref, now)
		require.Empty(t, s.Problems, ref)
		require.Equal(t, "GenericMachine", s.MissingKind)
		require.Equal(t, "infra-a-machine-state", s.State.Name)
		require.True(t, s.State.ServerMayExist)
	}
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rke-machine.cattle.io/v1", Kind: "DigitaloceanMachine", Name: "infra-a", UID: "u", Controller: new(true)}}
	require.NoError(t, w.Update(t.Context(), secret))
	target, err := w.Resolve(t.Context(), w.namespace, "pool-a")
	require.NoError(t, err)
	require.Empty(t, w.Snapshot(t.Context(), target, w.namespace, "pool-a", now).State.Name, "the state of a machine of another kind is not meant")
}

// TestSnapshotOfPool: the machines of a pool are read with it, and no others.
func TestSnapshotOfPool(t *testing.T) {
	w := newWorld(t)
	w.apply(t, pool("MachineDeployment", "web", "", ""))
	w.capiMachine(t, "web-a", "GenericMachine", "web-a", ", labels: {cluster.x-k8s.io/deployment-name: web}")
	w.capiMachine(t, "web-b", "GenericMachine", "web-b", ", labels: {cluster.x-k8s.io/deployment-name: other}")
	s := w.Snapshot(t.Context(), inventory.Target{}, w.namespace, "web", now)
	require.Empty(t, s.Problems)
	require.Len(t, s.Machines, 1)
	require.Equal(t, "web-a", s.Machines[0].Name)
	require.Equal(t, "store", s.ClusterName())
}

// TestSnapshotOfNothing: a name that means nothing any more, or that only things of other kinds have.
func TestSnapshotOfNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(t, pool("MachineDeployment", "web", "", ""))
	w.apply(t, pool("MachineSet", "web", "", ""))
	w.event(t, "a", "GenericMachine", "web", "u-1", "removed", 2)
	w.event(t, "b", "Deployment", "web", "u-2", "of something else", 1)
	w.event(t, "c", "Machine", "web", "u-3", "deleted", 1)
	w.secret(t, "web-machine-state", map[string]string{state.JournalKey: "{not json"})
	s := w.Snapshot(t.Context(), inventory.Target{}, w.namespace, "web", now)
	require.Equal(t, []string{"deleted", "removed"}, messages(s.Events))
	require.Len(t, s.Owners, 2)
	require.Equal(t, "MachineDeployment", s.Owners[0].Kind)
	require.True(t, s.State.ServerMayExist, "what cannot be read may mean a server")
	require.Len(t, s.Problems, 1)
	require.Contains(t, s.Problems[0], "web-machine-state")
	require.Empty(t, s.Unread, "it was read, and is broken")

	s = w.as(t, "halfway", may("cluster.x-k8s.io", []string{"machinesets"}, []string{"get"})).Snapshot(t.Context(), inventory.Target{}, w.namespace, "web", now)
	require.Len(t, s.Owners, 1, "the set may be seen, though the deployment may not")
	require.Equal(t, []facts.Part{facts.OwnersPart, facts.StatePart, facts.EventsPart}, s.Unread)
}

// TestSnapshotOfAnIllServer: one part that fails takes no other with it.
func TestSnapshotOfAnIllServer(t *testing.T) {
	w, m := shopWorld(t)
	for part, path := range map[facts.Part]string{
		facts.ClusterPart: "/clusters/", facts.DriverPart: "/nodedrivers", facts.StatePart: "/secrets/web-1-machine-state",
		facts.CredentialPart: "/secrets/token", facts.JobsPart: "/jobs", facts.EventsPart: "/events",
	} {
		api := w.through(t, func(out http.ResponseWriter, r *http.Request) bool {
			return strings.Contains(r.URL.Path, path) && answer(out, failure)
		})
		s := api.Snapshot(t.Context(), inventory.Target{Machine: m}, w.namespace, "web-1", now)
		require.Equal(t, []facts.Part{part}, s.Unread)
		require.Len(t, s.Problems, 1)
		require.True(t, strings.HasSuffix(s.Problems[0], ": etcd is ill"), s.Problems[0])
	}
}

// TestSnapshot_cleaning: of a plan that cleans a host it is known how far it is; that there is none any more is no problem.
func TestSnapshot_cleaning(t *testing.T) {
	w, m := shopWorld(t)
	target, err := w.Resolve(t.Context(), w.namespace, "web-1")
	require.NoError(t, err)
	target.CAPIMachine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "b"}
	target.Machine.Annotations = map[string]string{rkev1.CleanByPlanAnnotation: string(m.UID)}
	of := func() *facts.Cleaning {
		s := w.Snapshot(t.Context(), target, w.namespace, "web-1", now)
		require.Empty(t, s.Problems)
		return s.Cleaning
	}
	require.Nil(t, of())
	secret := w.secret(t, "b-machine-plan", map[string]string{plan.KeyState: "in-progress", plan.KeyAgentStatus: `{"running":"instruction clean since x"}`})
	require.Nil(t, of(), "a plan that cleans nothing")
	secret.Annotations = map[string]string{rkev1.CleansAnnotation: string(m.UID), rkev1.AgentSeenAnnotation: now.Format(time.RFC3339)}
	require.NoError(t, w.Update(t.Context(), secret))
	got := of()
	require.True(t, got.AgentSeen.Equal(now))
	require.Equal(t, []string{"in-progress", "instruction clean since x"}, []string{got.State, got.Running})
}

// TestSnapshotHoldsNoSecret: what is not read into a Snapshot nobody can print by mistake.
func TestSnapshotHoldsNoSecret(t *testing.T) {
	w, _ := shopWorld(t)
	const canary = "CANARYcanaryCANARY"
	for name, key := range map[string]string{"boot": "value", "token": "accessToken", "web-1-machine-state": state.SSHPrivateKeyKey} {
		secret := &corev1.Secret{}
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, secret))
		secret.Data[key] = []byte(canary)
		secret.Data["config.json"] = []byte(`{"Token":"` + canary + `"}`)
		require.NoError(t, w.Update(t.Context(), secret))
	}
	target, err := w.Resolve(t.Context(), w.namespace, "web-1")
	require.NoError(t, err)
	s := w.Snapshot(t.Context(), target, w.namespace, "web-1", now)
	require.Contains(t, s.Credential.Keys, "config.json")
	for _, part := range []any{s, s.State, s.Credential, s.Bootstrap} {
		raw, err := json.Marshal(part)
		require.NoError(t, err)
		require.NotContains(t, string(raw)+fmt.Sprintf("%+v", part), canary)
	}
}

// A machine that is held back is told with the one that asks first; for others none is got.
func TestSnapshot_ahead(t *testing.T) {
	w, m := shopWorld(t)
	w.apply(t, `{apiVersion: rke-machine.cattle.io/v1, kind: GenericMachine, metadata: {name: web-0}, spec: {common: {cloudCredentialSecretName: token}},
		status: {phase: Failed, nextAttemptTime: "2026-11-21T10:00:00Z", lastAttempt: {operation: create, number: 1, outcome: Failed, class: Quota}}}`)
	require.Nil(t, w.Snapshot(t.Context(), inventory.Target{Machine: m}, w.namespace, m.Name, now).Ahead)

	m.Status.HeldBy = "web-0"
	s := w.Snapshot(t.Context(), inventory.Target{Machine: m}, w.namespace, m.Name, now)
	require.NotNil(t, s.Ahead)
	require.Equal(t, "web-0", s.Ahead.Name)
	m.Status.HeldBy = "gone"
	require.Nil(t, w.Snapshot(t.Context(), inventory.Target{Machine: m}, w.namespace, m.Name, now).Ahead)
}
