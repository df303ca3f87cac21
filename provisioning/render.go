package provisioning

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Render renders the objects of a Cluster with rkeConfig. The same input gives the same objects. It
// fails only if an object cannot be encoded.
func Render(in Input) (Result, error) {
	cluster := in.Cluster
	r := &renderer{Input: in, founder: founder(in), owners: owners(in)}
	r.out.Cluster = capiCluster(cluster)
	r.out.Objects = []Object{infrastructure(cluster), ControlPlane(cluster), bootstrapTemplate(cluster)}
	r.missingRoles()
	if err := r.decideReplacements(); err != nil {
		return Result{}, err
	}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		if err := r.pool(&cluster.Spec.RKEConfig.MachinePools[i]); err != nil {
			return Result{}, err
		}
	}
	r.keepFounder()
	r.notePools()
	return r.out, nil
}

// notePools notes on the CAPI Cluster the pools that have a MachineDeployment.
func (r *renderer) notePools() {
	var names []string
	for _, obj := range r.out.Objects {
		if made, ok := obj.(*clusterv1.MachineDeployment); ok {
			names = append(names, made.Labels[rkev1.MachinePoolLabel])
		}
	}
	for name, pool := range r.Pools {
		if pool.Deployment != nil && slices.Contains(r.out.Keep, pool.Deployment.Name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	metav1.SetMetaDataAnnotation(&r.out.Cluster.ObjectMeta, provv1.PoolsAnnotation, strings.Join(slices.Compact(names), ","))
}

type renderer struct {
	Input
	// founder is the name of the pool whose machine creates the cluster.
	founder string
	// owners are the pools by the names of their MachineDeployments.
	owners map[string]string
	// waits are the pools whose machines are not replaced yet.
	waits map[string]bool
	out   Result
}

// holdsEtcd reports whether a pool has a machine with the role etcd, or is about to get it.
func holdsEtcd(in PoolInput) bool {
	made := in.Deployment
	return made != nil && made.Spec.Template.Labels[rkev1.EtcdRoleLabel] == "true" &&
		max(ptr.Deref(made.Spec.Replicas, 1), ptr.Deref(made.Status.Replicas, 0)) > 0
}

// isForced reports whether the user allows changes that delete the machine with the cluster's data.
func (r *renderer) isForced() bool {
	return r.Cluster.Annotations[rkev1.EtcdForceRemoveAnnotation] == "true"
}

// founder returns the name of the pool whose machine creates the cluster: the pool that has a
// MachineDeployment with the role etcd and a machine, even if the specification no longer has the pool, or else
// the first pool with the roles etcd and control plane. Empty if there is none.
func founder(in Input) string {
	for _, name := range slices.Sorted(maps.Keys(in.Pools)) {
		if holdsEtcd(in.Pools[name]) {
			return name
		}
	}
	for _, pool := range in.Cluster.Spec.RKEConfig.MachinePools {
		if pool.EtcdRole && pool.ControlPlaneRole && pool.MachineOS != windows && quantity(&pool) > 0 {
			return pool.Name
		}
	}
	return ""
}

// owners returns the pools by the names of their MachineDeployments. Long names are cut, so two pools
// may need one name: the pool that has the MachineDeployment keeps it, or else the first one gets it.
func owners(in Input) map[string]string {
	owners := map[string]string{}
	for name, pool := range in.Pools {
		if pool.Deployment != nil {
			owners[pool.Deployment.Name] = name
		}
	}
	for _, pool := range in.Cluster.Spec.RKEConfig.MachinePools {
		if name := Name(in.Cluster.Name, pool.Name); owners[name] == "" {
			owners[name] = pool.Name
		}
	}
	return owners
}

// Values of machineOS, and of the label cattle.io/os.
const (
	linux   = "linux"
	windows = "windows"
)

// quantity is the number of machines that a pool asks for.
func quantity(pool *provv1.MachinePool) int32 { return max(ptr.Deref(pool.Quantity, 1), 0) }

// pool renders one pool. A pool that cannot be rendered keeps the MachineDeployment that it has.
func (r *renderer) pool(pool *provv1.MachinePool) error {
	in := r.Pools[pool.Name]
	p := Pool{Name: pool.Name, Deployment: Name(r.Cluster.Name, pool.Name), Wanted: quantity(pool), Autoscaled: isAutoscaled(pool), Paused: pool.Paused}
	held := r.unsupported(pool)
	if held == nil {
		held = in.Refused
	}
	if held == nil && in.Inactive != "" && in.Deployment == nil {
		held = inactive(pool, in)
	}
	if held != nil {
		if r.founder != "" || !isServer(pool) { // missingRoles reports the others
			r.out.Findings = append(r.out.Findings, *held)
		}
		if in.Deployment != nil {
			p.Rendered = ptr.Deref(in.Deployment.Spec.Replicas, 0)
			r.out.Keep = append(r.out.Keep, p.Deployment)
		}
		r.out.Pools = append(r.out.Pools, p)
		return nil
	}
	p.Rendered = r.replicas(pool, in)
	r.out.Pools = append(r.out.Pools, p)
	template, err := r.template(pool, in)
	if err != nil {
		return err
	}
	made, err := deployment(r.Cluster, pool, template, p.Rendered)
	if err != nil {
		return err
	}
	if r.out.LosesData == pool.Name { // a second server could not join
		made.Spec.Rollout.Strategy.RollingUpdate = oneLess()
	}
	r.out.Objects = append(r.out.Objects, made)
	if check := healthCheck(r.Cluster, pool); check != nil {
		r.out.Objects = append(r.out.Objects, check)
	}
	return nil
}

// isServer reports whether a pool has a role of servers.
func isServer(pool *provv1.MachinePool) bool { return pool.EtcdRole || pool.ControlPlaneRole }

// unsupported returns why no machine is created for a pool; nil for most pools.
func (r *renderer) unsupported(pool *provv1.MachinePool) *Finding {
	name := Name(r.Cluster.Name, pool.Name)
	switch {
	case r.owners[name] != pool.Name:
		return &Finding{pool.Name, provv1.NameTakenReason, fmt.Sprintf(
			"its MachineDeployment would have the name %s, which the MachineDeployment of pool %s has", name, r.owners[name]), "Rename the pool: " + EditCommand(r.Cluster)}
	case pool.MachineOS == windows:
		return &Finding{pool.Name, provv1.TierUnsupportedReason, "Drover does not yet create machines with Windows", "Remove the pool, or set its machineOS to linux: " + EditCommand(r.Cluster)}
	case pool.Name != r.founder && isServer(pool):
		return &Finding{pool.Name, provv1.TierUnsupportedReason,
			"Drover does not yet create further servers: only one pool with the roles etcd and control plane gets a machine", "Remove the pool: " + EditCommand(r.Cluster)}
	}
	return nil
}

// inactive returns why a pool gets no machine template.
func inactive(pool *provv1.MachinePool, in PoolInput) *Finding {
	ref := pool.MachineConfigRef
	return &Finding{pool.Name, provv1.DriverInactiveReason, fmt.Sprintf("the NodeDriver %s of %s %s is inactive", in.Inactive, ref.Kind, ref.Name),
		fmt.Sprintf(`Activate it: kubectl patch nodedrivers.management.cattle.io %s --type merge -p '{"spec":{"active":true}}'`, in.Inactive)}
}

// replicas returns the number of machines of a pool. The pool that creates the cluster has one for
// now, and never none once it has created the cluster. A pool with autoscaling sizes has the number
// that the autoscaler chose.
func (r *renderer) replicas(pool *provv1.MachinePool, in PoolInput) int32 {
	if isAutoscaled(pool) {
		if in.Deployment != nil {
			return ptr.Deref(in.Deployment.Spec.Replicas, firstSize(pool))
		}
		return firstSize(pool)
	}
	wanted := quantity(pool)
	if pool.Name != r.founder {
		return wanted
	}
	if wanted > 1 {
		r.find(pool.Name, provv1.TierUnsupportedReason, r.setOne(pool.Name), "Drover does not yet create further servers: the pool gets one machine instead of %d", wanted)
	}
	if wanted == 0 && r.isForced() {
		r.out.LosesData = pool.Name
		return 0
	}
	if wanted == 0 && in.Deployment != nil {
		r.find(pool.Name, provv1.PoolHoldsEtcdReason, r.setOne(pool.Name), "quantity is 0, but the pool's machine has the cluster's data and is not deleted")
	}
	return 1
}

// template renders the machine template of a pool, and returns a reference to it. The pool that
// holds the cluster's data keeps its template: another machine would start without the data.
func (r *renderer) template(pool *provv1.MachinePool, in PoolInput) (*unstructured.Unstructured, error) {
	template, err := machineTemplate(r.Cluster, pool, in)
	if err != nil {
		return nil, err
	}
	if r.waits[pool.Name] {
		return keptTemplate(in), nil
	}
	changed := false
	if in.Deployment != nil {
		used := in.Deployment.Spec.Template.Spec.InfrastructureRef
		changed = used.Name != template.GetName() || used.Kind != template.GetKind()
	}
	if changed && in.Inactive != "" {
		r.out.Findings = append(r.out.Findings, *inactive(pool, in))
		return keptTemplate(in), nil
	}
	if pool.Name == r.founder {
		if changed && r.isForced() {
			r.out.LosesData = pool.Name
		} else if changed {
			r.holdData(pool, in)
			return keptTemplate(in), nil
		}
	}
	r.out.Objects = append(r.out.Objects, template)
	return template, nil
}

// keepFounder keeps the machine with the cluster's data after its pool was removed.
func (r *renderer) keepFounder() {
	named := slices.ContainsFunc(r.Cluster.Spec.RKEConfig.MachinePools, func(p provv1.MachinePool) bool { return p.Name == r.founder })
	if r.founder == "" || named {
		return
	}
	if r.isForced() {
		r.out.LosesData = r.founder
		return
	}
	r.out.Keep = append(r.out.Keep, Name(r.Cluster.Name, r.founder))
	r.find(r.founder, provv1.PoolHoldsEtcdReason, "Add the pool again: "+EditCommand(r.Cluster), "the pool was removed, but its machine has the cluster's data and is not deleted")
}

// missingRoles reports a Cluster that cannot start.
func (r *renderer) missingRoles() {
	if r.founder != "" {
		return
	}
	pools := r.Cluster.Spec.RKEConfig.MachinePools
	next := "Add a pool with etcdRole, controlPlaneRole and a quantity of 1: " + EditCommand(r.Cluster)
	switch {
	case !slices.ContainsFunc(pools, func(p provv1.MachinePool) bool { return p.EtcdRole }):
		r.find("", rkev1.NoEtcdMachineReason, next, "no pool has etcdRole")
	case !slices.ContainsFunc(pools, func(p provv1.MachinePool) bool { return p.ControlPlaneRole }):
		r.find("", rkev1.NoControlPlaneMachineReason, next, "no pool has controlPlaneRole")
	default:
		r.find("", provv1.TierUnsupportedReason, next, "no pool of Linux machines with a quantity above 0 has both etcdRole and controlPlaneRole, which the first server needs")
	}
}

func (r *renderer) find(pool, reason, next, format string, args ...any) {
	r.out.Findings = append(r.out.Findings, Finding{Pool: pool, Reason: reason, Message: fmt.Sprintf(format, args...), Next: next})
}

// setOne is the next step for a pool that can have one machine only.
func (r *renderer) setOne(pool string) string {
	return fmt.Sprintf("Set quantity to 1: drover scale cluster/%s %s=1 -n %s", r.Cluster.Name, pool, r.Cluster.Namespace)
}

// holdData reports that the machine with the cluster's data keeps its options: the Config has changed,
// or the pool names another one.
func (r *renderer) holdData(pool *provv1.MachinePool, in PoolInput) {
	const loses = ", but a new machine would start without the cluster's data, which only this pool's machine has"
	kind, name := in.Config.GetKind(), in.Config.GetName()
	if in.Template != nil {
		noted := in.Template.GetAnnotations()
		wasKind, was := noted[rkev1.ClonedFromKindAnnotation], noted[rkev1.ClonedFromNameAnnotation]
		if was != "" && (was != name || wasKind != kind) {
			r.find(pool.Name, provv1.PoolHoldsEtcdReason, fmt.Sprintf("Name %s %s in machineConfigRef again: %s", wasKind, was, EditCommand(r.Cluster)), "machineConfigRef names %s %s now"+loses, kind, name)
			return
		}
	}
	r.find(pool.Name, provv1.PoolHoldsEtcdReason, "Undo the change: "+EditConfigCommand(r.Cluster, kind, name), "%s %s has changed"+loses, kind, name)
}
