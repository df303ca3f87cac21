package bench

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/simulated"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/edits"
)

// provisioned is a fleet whose machines belong to one provisioning Cluster. Jobs, servers and agents take
// no time. The cluster's API is a real one.
type provisioned struct {
	*fleet
	workload *simulated.Cluster
	name     string
}

func newProvisioned(tb testing.TB) *provisioned {
	tb.Helper()
	agentsPort := testkit.FreePort(tb)
	server := "https://127.0.0.1:" + agentsPort
	binaries, err := filepath.Abs("../../bin/share/agents")
	require.NoError(tb, err)
	p := &provisioned{workload: simulated.NewCluster(tb, testkit.Fresh(tb)), name: "shop",
		fleet: newFleet(tb, "--server-url="+server, "--agents-bind-address=127.0.0.1:"+agentsPort, "--agents-dir="+binaries)}
	require.NoError(tb, provv1.AddToScheme(p.client.Scheme()))
	dir := tb.TempDir()
	p.background(func(ctx context.Context) error {
		return (&simulated.Agents{Server: server, Dir: dir, Apply: p.workload.Apply}).Play(ctx, p.server, p.namespace)
	})
	return p
}

// world returns a Cluster and its Configs, as yet only in memory.
func (p *provisioned) world() *edits.World { return edits.New(p.namespace, p.name, "credential") }

// write creates or replaces the Cluster and its Configs.
func (p *provisioned) write(w *edits.World) {
	p.Helper()
	objects := []client.Object{}
	for _, name := range slices.Sorted(maps.Keys(w.Configs)) {
		objects = append(objects, w.Configs[name])
	}
	for _, object := range append(objects, w.Cluster) {
		testkit.Eventually(p, time.Minute, func() error { return p.replace(object.DeepCopyObject().(client.Object)) })
	}
}

// replace writes an object as kubectl replace does, except that it keeps owners and annotations of the
// stored one.
func (p *provisioned) replace(object client.Object) error {
	stored := object.DeepCopyObject().(client.Object)
	err := p.client.Get(p.Context(), client.ObjectKeyFromObject(object), stored)
	if apierrors.IsNotFound(err) {
		return p.client.Create(p.Context(), object)
	}
	if err != nil {
		return err
	}
	annotations := stored.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, object.GetAnnotations())
	object.SetAnnotations(annotations)
	object.SetLabels(stored.GetLabels())
	object.SetOwnerReferences(stored.GetOwnerReferences())
	object.SetFinalizers(stored.GetFinalizers())
	object.SetResourceVersion(stored.GetResourceVersion())
	object.SetUID(stored.GetUID())
	return p.client.Update(p.Context(), object)
}

// endpoint says where the cluster's API is, as a user with a load balancer does.
func (p *provisioned) endpoint() {
	p.Helper()
	infrastructure := &rkev1.RKECluster{ObjectMeta: p.named(p.name)}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"controlPlaneEndpoint":{"host":"127.0.0.1","port":%s}}}`, p.workload.Port))
	testkit.Eventually(p, time.Minute, func() error { return p.client.Patch(p.Context(), infrastructure, patch) })
}

// settled waits until the Cluster reports that all machines are as they should be, except pools that
// wait.
func (p *provisioned) settled() *provv1.Cluster {
	p.Helper()
	cluster := &provv1.Cluster{}
	// A change of a Config gives the Cluster no other generation: the manager has acted when it no longer
	// writes.
	testkit.Eventually(p, 3*time.Minute, func() error {
		p.settle(costQuiet)
		if err := p.client.Get(p.Context(), client.ObjectKey{Namespace: p.namespace, Name: p.name}, cluster); err != nil {
			return err
		}
		if cluster.Status.ObservedGeneration != cluster.Generation {
			return fmt.Errorf("generation %d is not observed", cluster.Generation)
		}
		return p.quiet(cluster)
	})
	return cluster
}

// quiet returns why machines are still to change.
func (p *provisioned) quiet(cluster *provv1.Cluster) error {
	deployments, machines := &clusterv1.MachineDeploymentList{}, &clusterv1.MachineList{}
	sets := &clusterv1.MachineSetList{}
	for _, list := range []client.ObjectList{deployments, machines, sets} {
		if err := p.client.List(p.Context(), list, client.InNamespace(p.namespace)); err != nil {
			return err
		}
	}
	for _, m := range machines.Items {
		switch reconciled := meta.FindStatusCondition(m.Status.Conditions, rkev1.ReconciledCondition); {
		case !m.DeletionTimestamp.IsZero():
			return fmt.Errorf("%s is being deleted", m.Name)
		case reconciled == nil || reconciled.Reason != rkev1.UpToDateReason:
			return fmt.Errorf("%s is not up to date: %v; the manager says: %s", m.Name, reconciled, lastLines(p.manager.log.String()))
		case !m.Status.NodeRef.IsDefined():
			return fmt.Errorf("%s has no Node", m.Name)
		}
	}
	owned := map[string]int32{}
	for _, set := range sets.Items {
		owned[set.Labels[clusterv1.MachineDeploymentNameLabel]] += ptr.Deref(set.Status.Replicas, 0)
	}
	for _, d := range deployments.Items {
		pool, isServer := d.Labels[rkev1.MachinePoolLabel], d.Spec.Template.Labels[rkev1.EtcdRoleLabel] != ""
		if !isServer && !slices.ContainsFunc(cluster.Spec.RKEConfig.MachinePools, func(p provv1.MachinePool) bool { return p.Name == pool }) {
			return fmt.Errorf("the pool of %s was removed", d.Name)
		}
		wanted, updated := ptr.Deref(d.Spec.Replicas, 0), ptr.Deref(d.Status.UpToDateReplicas, -1)
		switch paused := ptr.Deref(d.Spec.Paused, false); {
		case !d.DeletionTimestamp.IsZero():
			return fmt.Errorf("%s is being deleted", d.Name)
		case d.Status.ObservedGeneration != d.Generation:
			return fmt.Errorf("%s is not observed", d.Name)
		case owned[d.Name] != wanted, ptr.Deref(d.Status.Replicas, -1) != wanted, !paused && updated != wanted, ptr.Deref(d.Status.AvailableReplicas, -1) != wanted:
			return fmt.Errorf("%s: %d wanted, %v; %v of Cluster %s", d.Name, wanted, d.Status, owned[d.Name], cluster.Name)
		}
	}
	return nil
}

// seen is what a test compares of a Machine.
type seen struct {
	pool string
	// stamp is RESTART_STAMP and the environment of the plan.
	stamp string
}

// machines returns the Machines and the stamps of their plans, by the Machines' UIDs and names.
func (p *provisioned) machines() map[string]seen {
	p.Helper()
	list, secrets := &clusterv1.MachineList{}, &corev1.SecretList{}
	require.NoError(p, p.client.List(p.Context(), list, client.InNamespace(p.namespace)))
	require.NoError(p, p.client.List(p.Context(), secrets, client.InNamespace(p.namespace)))
	plans := map[string]string{}
	for _, secret := range secrets.Items {
		if name, is := strings.CutSuffix(secret.Name, "-machine-plan"); is && len(secret.Data[plan.KeyPlan]) > 0 {
			order, err := plan.Decode(secret.Data[plan.KeyPlan])
			require.NoError(p, err)
			for _, instruction := range order.Instructions {
				plans[name] += strings.Join(slices.DeleteFunc(instruction.Env, func(v string) bool { return strings.HasPrefix(v, "DRAIN_HASH=") }), "\n")
			}
		}
	}
	all := map[string]seen{}
	for _, m := range list.Items {
		stamp := plans[m.Spec.Bootstrap.ConfigRef.Name]
		require.NotEmpty(p, stamp, "the plan of %s", m.Name)
		all[m.Name] = seen{pool: m.Labels[rkev1.MachinePoolLabel], stamp: stamp}
	}
	return all
}
