package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/e2e/simulated"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/edits"
)

// TestRestore: the management cluster of a provisioning Cluster is lost, and its backup is restored in an
// empty one while the servers run. The Cluster has the same servers, and no other is made. After a restore
// of the Cluster and its Configs alone, nothing is made either.
func TestRestore(t *testing.T) {
	port, agentsDir := testkit.FreePort(t), t.TempDir()
	server := "https://127.0.0.1:" + port
	require.NoError(t, os.WriteFile(filepath.Join(agentsDir, "drover-agent-linux-"+runtime.GOARCH), []byte("an agent"), 0o755))
	flags := []string{"--server-url=" + server, "--agents-bind-address=127.0.0.1:" + port, "--agents-dir=" + agentsDir}
	from := newSite(t, flags)
	workload := simulated.NewCluster(t, testkit.Fresh(t))
	play(t, &simulated.Agents{Server: server, Dir: t.TempDir(), Apply: workload.Apply}, from)

	world := edits.New(namespace, "whole", "credential")
	pools := &world.Cluster.Spec.RKEConfig.MachinePools
	*pools = (*pools)[:2] // one server, two workers
	from.make(&corev1.Namespace{ObjectMeta: named("", namespace)},
		&corev1.Secret{ObjectMeta: named(namespace, "credential"), StringData: map[string]string{"accessToken": theCloud.Token()}})
	for _, name := range slices.Sorted(maps.Keys(world.Configs)) {
		from.make(world.Configs[name])
	}
	from.make(world.Cluster)
	endpoint := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"controlPlaneEndpoint":{"host":"127.0.0.1","port":%s}}}`, workload.Port))
	testkit.Eventually(t, patience, func() error {
		return from.Patch(t.Context(), &rkev1.RKECluster{ObjectMeta: named(namespace, "whole")}, endpoint)
	})
	testkit.Eventually(t, patience, from.ready)
	testkit.Eventually(t, patience, from.jobsEnded)
	servers, was := theCloud.Ledger.Records(ledger.KindDroplet), from.inventory()
	require.Len(t, from.providerIDs(), 3)

	backup := from.backup()
	authority := testkit.ExpectExists(t, from, &corev1.Secret{ObjectMeta: named(managerNamespace, "drover-endpoint-authority")})
	from.stopManager()

	to := newSite(t, flags, &corev1.Secret{ObjectMeta: named(managerNamespace, authority.Name), Type: authority.Type, Data: authority.Data})
	to.make(&corev1.Namespace{ObjectMeta: named("", namespace)})
	to.apply(backup, func(kind string) bool {
		return kind == "Cluster.provisioning.cattle.io" || strings.HasPrefix(kind, "DigitaloceanConfig.")
	})
	testkit.Eventually(t, patience, func() error { return to.waitsFor(provv1.CAPIClusterMissingReason) })
	require.Empty(t, to.providerIDs())

	// In the worst order: objects from which Cluster API makes others come before these.
	for _, obj := range backup {
		if obj.GroupVersionKind().GroupKind() == clusterv1.GroupVersion.WithKind("Cluster").GroupKind() {
			require.ErrorContains(t, to.Create(t.Context(), obj.DeepCopy()), "this Cluster comes from a backup: set spec.paused: true")
			require.NoError(t, unstructured.SetNestedField(obj.Object, true, "spec", "paused"))
		}
	}
	last := []string{"Cluster", "MachineDeployment", "MachineSet", "Machine"}
	to.apply(backup, func(kind string) bool { return !slices.Contains(last, strings.TrimSuffix(kind, ".cluster.x-k8s.io")) })
	for _, next := range last {
		to.apply(backup, func(kind string) bool { return kind == next+".cluster.x-k8s.io" })
		testkit.Eventually(t, patience, func() error { return to.pausedAll(next) })
	}
	testkit.Eventually(t, patience, func() error { return to.waitsFor(clusterv1.PausedReason) })
	require.Equal(t, was, to.inventory(), "Cluster API makes nothing while objects are missing")

	to.kubectl(documented(t, 2))
	testkit.Eventually(t, patience, to.ready)
	testkit.Eventually(t, patience, to.jobsEnded)
	require.Equal(t, was, to.inventory())
	require.Equal(t, servers, theCloud.Ledger.Records(ledger.KindDroplet), "the earlier servers, and no other")

	require.NoError(t, to.Delete(t.Context(), &provv1.Cluster{ObjectMeta: named(namespace, "whole")}))
	testkit.Eventually(t, patience, func() error {
		return gone(to.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "whole"}, &provv1.Cluster{}))
	})
	require.Empty(t, theCloud.Ledger.Live(ledger.KindDroplet))
	testkit.Eventually(t, patience, to.noManagement)
}

// play runs the agents of a site's machines until the test ends.
func play(t *testing.T, agents *simulated.Agents, s *site) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- agents.Play(ctx, s.config, namespace) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the agents: %v", err)
		}
	})
}

func (s *site) cluster() (*provv1.Cluster, error) {
	cluster := &provv1.Cluster{}
	return cluster, s.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: "whole"}, cluster)
}

// ready is nil if the provisioning Cluster is Ready.
func (s *site) ready() error {
	cluster, err := s.cluster()
	if err != nil || meta.IsStatusConditionTrue(cluster.Status.Conditions, provv1.ReadyCondition) && cluster.Status.ObservedGeneration == cluster.Generation {
		return err
	}
	return fmt.Errorf("the Cluster is not Ready: %+v; %v", cluster.Status.Conditions, s.inventory())
}

// waitsFor is nil if the provisioning Cluster is not Ready for a reason.
func (s *site) waitsFor(reason string) error {
	cluster, err := s.cluster()
	if err != nil {
		return err
	}
	if ready := meta.FindStatusCondition(cluster.Status.Conditions, provv1.ReadyCondition); ready == nil || ready.Reason != reason {
		return fmt.Errorf("the Cluster does not wait for %s: %+v", reason, cluster.Status.Conditions)
	}
	return nil
}

// inventory are the objects that make, replace and delete servers, by kind and name, the machines with the provider IDs of their
// servers.
func (s *site) inventory() []string {
	s.Helper()
	var all []string
	for _, list := range []client.ObjectList{&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{}} {
		require.NoError(s, s.List(s.Context(), list, client.InNamespace(namespace)))
		items, err := meta.ExtractList(list)
		require.NoError(s, err)
		for _, item := range items {
			all = append(all, fmt.Sprintf("%T %s", item, item.(client.Object).GetName()))
		}
	}
	templates := &unstructured.UnstructuredList{}
	templates.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachineTemplateList"))
	require.NoError(s, s.List(s.Context(), templates, client.InNamespace(namespace)))
	for _, template := range templates.Items {
		all = append(all, template.GetKind()+" "+template.GetName())
	}
	return append(all, s.providerIDs()...)
}

// providerIDs are the machines' names and provider IDs.
func (s *site) providerIDs() []string {
	s.Helper()
	list := machines()
	require.NoError(s, s.List(s.Context(), list, client.InNamespace(namespace)))
	var all []string
	for _, m := range list.Items {
		id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
		all = append(all, m.GetName()+" "+id)
	}
	return all
}

// pausedAll is nil if the controllers have seen all objects of a kind of Cluster API, and that their Cluster is paused.
func (s *site) pausedAll(kind string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind + "List"))
	if err := s.List(s.Context(), list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, obj := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		if !slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == clusterv1.PausedCondition && condition["status"] == "True"
		}) {
			return fmt.Errorf("%s %s is not paused: %v", kind, obj.GetName(), conditions)
		}
	}
	return nil
}

// documented returns a command of the chapter in docs/dataflow.md about backups. The second one needs
// jq, and is done here.
func documented(t *testing.T, number int) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/dataflow.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(page), "\n## When a backup is restored\n")
	blocks := strings.Split(text, "```sh\n")
	require.Greater(t, len(blocks), number+1)
	command, _, _ := strings.Cut(blocks[number+1], "```")
	return command
}

// kubectl runs a command with us as the cluster, and returns the folder with the files that it wrote.
func (s *site) kubectl(command string, restore ...[]byte) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euxc", command)
	cmd.Dir, cmd.Env = s.TempDir(), append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	for _, file := range restore {
		require.NoError(s, os.WriteFile(filepath.Join(cmd.Dir, "restore.json"), file, 0o600))
	}
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, string(out))
	return cmd.Dir
}

// backup is what docs/dataflow.md advises: the objects of the namespace, without the fields of the earlier API server.
func (s *site) backup() []*unstructured.Unstructured {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(s.kubectl(documented(s.T, 0)), "shop.json"))
	require.NoError(s, err)
	list := &unstructured.UnstructuredList{}
	require.NoError(s, json.Unmarshal(raw, list))
	var all []*unstructured.Unstructured
	for _, obj := range list.Items {
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"} {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
		}
		delete(obj.Object, "status")
		all = append(all, &obj)
	}
	return all
}

// apply restores objects of a backup.
func (s *site) apply(backup []*unstructured.Unstructured, wanted func(kind string) bool) {
	s.Helper()
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, obj := range backup {
		if wanted(obj.GroupVersionKind().GroupKind().String()) {
			list.Items = append(list.Items, *obj)
		}
	}
	raw, err := list.MarshalJSON()
	require.NoError(s, err)
	s.kubectl("kubectl apply --server-side -f restore.json", raw)
}
