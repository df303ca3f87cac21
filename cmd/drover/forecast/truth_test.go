package forecast_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/forecast"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/releases"
	"github.com/drover-project/drover/testkit/edits"
)

// simulation is a cluster whose renderer and planner are the real ones. It stands in for Cluster API's
// MachineDeployments and for the agents, both of which take no time.
type simulation struct {
	t         *testing.T
	world     *edits.World
	catalogue *releases.Catalogue
	pools     map[string]provisioning.PoolInput
	templates map[string]*unstructured.Unstructured
	machines  map[string]clusterv1.Machine
	secrets   map[string]*planner.Secret
	spec      rkev1.RKEControlPlaneSpec
	made      int
}

// TestPlan_isTrue makes 300 random edits, one after the other, and compares each plan with what renderer
// and planner then do to the machines.
func TestPlan_isTrue(t *testing.T) {
	catalogue, err := releases.Default()
	require.NoError(t, err)
	s := &simulation{t: t, world: edits.New("default", "shop", "cloud"), catalogue: catalogue, pools: map[string]provisioning.PoolInput{},
		templates: map[string]*unstructured.Unstructured{}, machines: map[string]clusterv1.Machine{}, secrets: map[string]*planner.Secret{}}
	for _, config := range s.world.Configs {
		config.SetUID(types.UID(config.GetName()))
		config.SetGeneration(1)
	}
	s.apply(s.world)
	random := rand.New(rand.NewPCG(30, 4))
	var replaced, restarted, waited int
	for i := range 300 {
		next := s.world.Copy()
		names := edits.Random(random, next)
		s.noteConfigs(next)
		predicted := s.predict(next)
		if pending := predicted.PendingReplacement; pending != nil && random.IntN(2) == 0 {
			next.Cluster.Annotations = map[string]string{"drover.cattle.io/approve-replacement": pending.ID}
			names = append(names, "approval")
			predicted = s.predict(next)
		}
		about := fmt.Sprintf("edit %d (%s): %+v", i, strings.Join(names, ", "), predicted)
		machines, stamps := maps.Clone(s.machines), s.stamps()
		s.apply(next)

		made, removed := map[string]int32{}, map[string]int32{}
		for name := range s.machines {
			if _, was := machines[name]; !was {
				made[s.machines[name].Labels[rkev1.MachinePoolLabel]]++
			}
		}
		for name := range machines {
			if _, is := s.machines[name]; !is {
				removed[machines[name].Labels[rkev1.MachinePoolLabel]]++
			}
		}
		for _, pool := range predicted.Pools {
			if pool.NeedsApproval {
				waited++
			}
			if pool.NeedsApproval || pool.Paused {
				pool.Replaced = 0
			}
			replaced += int(pool.Replaced)
			made[pool.Name] -= pool.Made + pool.Replaced
			removed[pool.Name] -= pool.Removed + pool.Replaced
		}
		for _, left := range []map[string]int32{made, removed} {
			maps.DeleteFunc(left, func(_ string, n int32) bool { return n == 0 })
			require.Empty(t, left, about)
		}
		var restarts, updates []string
		for name, after := range s.stamps() {
			before, was := stamps[name]
			switch {
			case !was:
			case after.started != before.started:
				restarts = append(restarts, name)
			case after.major != before.major:
				updates = append(updates, name)
			}
		}
		restarted += len(restarts)
		stays := func(names []string) []string {
			return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, is := s.machines[name]; return !is })
		}
		require.ElementsMatch(t, restarts, stays(predicted.Restarted), about)
		require.ElementsMatch(t, updates, stays(predicted.Updated), about)
	}
	require.Greater(t, replaced, 20, "the edits replace machines")
	require.Greater(t, restarted, 50, "the edits restart machines")
	require.Greater(t, waited, 5, "replacements wait for an approval")
}

// noteConfigs gives each changed Config its next generation.
func (s *simulation) noteConfigs(next *edits.World) {
	for name, config := range next.Configs {
		before, had := s.world.Configs[name]
		switch {
		case !had:
			config.SetUID(types.UID(name))
			config.SetGeneration(1)
		case !equality.Semantic.DeepEqual(provisioning.Options(before), provisioning.Options(config)):
			config.SetGeneration(before.GetGeneration() + 1)
		}
	}
}

// input is what the renderer reads.
func (s *simulation) input(w *edits.World) provisioning.Input {
	in := provisioning.Input{Cluster: w.Cluster, Pools: map[string]provisioning.PoolInput{}}
	for name, pool := range s.pools {
		pool.Config = nil
		in.Pools[name] = pool
	}
	for _, pool := range w.Cluster.Spec.RKEConfig.MachinePools {
		existing := in.Pools[pool.Name]
		existing.Config = w.Configs[pool.MachineConfigRef.Name]
		in.Pools[pool.Name] = existing
	}
	return in
}

func (s *simulation) predict(next *edits.World) *forecast.Plan {
	sources := forecast.Sources{Stored: s.world.Cluster, Input: s.input(next), ControlPlane: &rkev1.RKEControlPlane{Spec: s.spec}, Releases: s.catalogue}
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		sources.Machines = append(sources.Machines, s.machines[name])
	}
	predicted, err := forecast.New(sources)
	require.NoError(s.t, err)
	return predicted
}

// apply renders the edited Cluster, and does what Cluster API does with the objects.
func (s *simulation) apply(next *edits.World) {
	rendered, err := provisioning.Render(s.input(next))
	require.NoError(s.t, err)
	kept := map[string]bool{}
	for _, object := range rendered.Objects {
		switch object := object.(type) {
		case *unstructured.Unstructured:
			s.templates[object.GetName()] = object
		case *rkev1.RKEControlPlane:
			s.spec = object.Spec
		case *clusterv1.MachineDeployment:
			pool := object.Labels[rkev1.MachinePoolLabel]
			kept[pool] = true
			s.roll(pool, object)
		}
	}
	for _, name := range rendered.Keep {
		for pool := range s.pools {
			kept[pool] = kept[pool] || provisioning.Name(next.Cluster.Name, pool) == name
		}
	}
	for pool := range s.pools {
		if !kept[pool] {
			s.scale(pool, nil, 0)
			delete(s.pools, pool)
		}
	}
	s.world = next
	s.settle()
}

// roll replaces the machines of a pool whose template differs, and scales it.
func (s *simulation) roll(pool string, object *clusterv1.MachineDeployment) {
	ref := object.Spec.Template.Spec.InfrastructureRef
	outdated := func() (all, old int32) {
		for _, m := range s.machines {
			if m.Labels[rkev1.MachinePoolLabel] == pool {
				all++
				if m.Spec.InfrastructureRef != ref {
					old++
				}
			}
		}
		return all, old
	}
	if _, old := outdated(); old > 0 && !ptr.Deref(object.Spec.Paused, false) {
		kept, _ := outdated()
		s.scale(pool, object, int(kept-old)) // the oldest machines
	}
	for name, m := range s.machines {
		if m.Labels[rkev1.MachinePoolLabel] == pool {
			m.Labels = object.Spec.Template.Labels
			s.machines[name] = m
		}
	}
	s.scale(pool, object, int(*object.Spec.Replicas))
	all, old := outdated()
	object.Status.Replicas, object.Status.UpToDateReplicas = new(all), new(all-old)
	s.pools[pool] = provisioning.PoolInput{Deployment: object, Template: s.templates[ref.Name]}
}

// scale makes or deletes machines of a pool.
func (s *simulation) scale(pool string, object *clusterv1.MachineDeployment, wanted int) {
	var names []string
	for name, m := range s.machines {
		if m.Labels[rkev1.MachinePoolLabel] == pool {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for ; len(names) > wanted; names = names[1:] {
		delete(s.machines, names[0])
		delete(s.secrets, names[0])
	}
	for range wanted - len(names) {
		s.made++
		name := fmt.Sprintf("%s-%05d", object.Name, s.made)
		s.machines[name] = clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: object.Spec.Template.Labels}, Spec: object.Spec.Template.Spec}
		s.secrets[name] = &planner.Secret{Data: map[string][]byte{plan.KeyAgentPublicKey: []byte(name)}}
	}
}

// settle delivers plans, which the agents apply, until no machine gets another.
func (s *simulation) settle() {
	for range 2*len(s.machines) + 2 {
		c := planner.Cluster{Name: "shop", Namespace: "default", Spec: s.spec, Releases: s.catalogue, InfrastructureProvisioned: true, Objects: map[planner.ObjectKey]planner.Object{},
			Tokens:      planner.Tokens{Server: "server", Agent: "agent"},
			Authorities: planner.Authorities{Server: pair, Client: pair, Proxy: pair, EtcdServer: pair, EtcdPeer: pair, ServiceAccountKey: []byte("key")}}
		for name, m := range s.machines {
			secret := *s.secrets[name]
			secret.Delivered = planner.NewDelivered(secret.Data[plan.KeyPlan])
			secret.Data = maps.Clone(secret.Data)
			delete(secret.Data, plan.KeyPlan)
			c.Machines = append(c.Machines, planner.Machine{Name: name, ID: name, Labels: m.Labels, Roles: planner.RolesOf(m.Labels), OS: m.Labels[rkev1.OSLabel], Provisioned: true,
				ProviderID: "digitalocean://" + name, InternalIPs: []string{"10.0.0.1"}, Secret: &secret})
		}
		delivered := false
		result := planner.Plan(c)
		for _, verdict := range result.Machines {
			if verdict.Delivery != nil {
				delivered = true
				s.deliver(s.secrets[verdict.Machine], *verdict.Delivery)
			}
		}
		if !delivered {
			require.True(s.t, len(result.Machines) == len(s.machines), "%s: %s", result.Reason, result.Message)
			for _, verdict := range result.Machines {
				require.Equal(s.t, rkev1.UpToDateReason, verdict.Reason, "%+v", verdict)
			}
			return
		}
	}
	require.Fail(s.t, "plans are delivered again and again")
}

var pair = planner.KeyPair{Certificate: []byte("certificate"), Key: []byte("key")}

// deliver writes a plan, and what an agent reports after it has applied it.
func (s *simulation) deliver(secret *planner.Secret, d planner.Delivery) {
	checksum := plan.Checksum(d.Plan)
	decoded, err := plan.Decode(d.Plan)
	require.NoError(s.t, err)
	probes := map[string]plan.ProbeStatus{}
	for probe := range decoded.Probes {
		probes[probe] = plan.ProbeStatus{Healthy: true}
	}
	statuses, err := json.Marshal(probes)
	require.NoError(s.t, err)
	status, err := json.Marshal(plan.AgentStatus{Checksum: checksum})
	require.NoError(s.t, err)
	secret.InitNode, secret.JoinedTo = d.InitNode, d.JoinedTo
	secret.Data = map[string][]byte{plan.KeyAgentPublicKey: secret.Data[plan.KeyAgentPublicKey], plan.KeyPlan: d.Plan, plan.KeyState: []byte(plan.StateSucceeded),
		plan.KeyAppliedChecksum: []byte(checksum), plan.KeyProbeStatuses: statuses, plan.KeyAgentStatus: status}
}

// stamp is what decides about restarts and files.
type stamp struct{ started, major string }

func (s *simulation) stamps() map[string]stamp {
	all := map[string]stamp{}
	for name, secret := range s.secrets {
		decoded, err := plan.Decode(secret.Data[plan.KeyPlan])
		require.NoError(s.t, err)
		started := ""
		for _, one := range decoded.Instructions {
			started += one.Image + strings.Join(slices.DeleteFunc(slices.Clone(one.Env), func(v string) bool { return strings.HasPrefix(v, "DRAIN_HASH=") }), "\n")
		}
		all[name] = stamp{started, planner.NewDelivered(secret.Data[plan.KeyPlan]).Major}
	}
	return all
}
