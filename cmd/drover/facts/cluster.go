package facts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// DecodeCluster reads a provisioning Cluster as the API returned it. Incomplete conditions are
// accepted, because Rancher writes conditions without Kubernetes' required fields.
func DecodeCluster(object map[string]any) (*provv1.Cluster, error) {
	status, _ := object["status"].(map[string]any)
	if status != nil {
		object, status = maps.Clone(object), maps.Clone(status)
		object["status"] = status
	}
	conditions, _ := status["conditions"].([]any)
	delete(status, "conditions")
	c := &provv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, c); err != nil {
		return nil, fmt.Errorf("decoding a Cluster of provisioning.cattle.io: %w", err)
	}
	c.Status.Conditions = decodeConditions(conditions)
	return c, nil
}

// ClusterTree is a provisioning Cluster with its machines at one moment.
type ClusterTree struct {
	Now     time.Time
	Cluster *provv1.Cluster
	// Machines are ordered by pool and name.
	Machines []ClusterMachine
	// Deployments are the MachineDeployments by pool.
	Deployments map[string]Object
	// Problems lists the parts that could not be read.
	Problems []string
}

// ClusterMachine is one machine of a Cluster. Of CAPI and Infra, one may be nil.
type ClusterMachine struct {
	CAPI  *clusterv1.Machine
	Infra *Machine
	// Job is the machine's newest Job; nil if it has no Job or Jobs cannot be read.
	Job *batchv1.Job
}

// Name is the CAPI Machine's name or, without one, the infra machine's.
func (m *ClusterMachine) Name() string {
	if m.CAPI != nil {
		return m.CAPI.Name
	}
	return m.Infra.Name
}

// Labels are the labels of the CAPI Machine or, without one, of the infra machine.
func (m *ClusterMachine) Labels() map[string]string {
	if m.CAPI != nil {
		return m.CAPI.Labels
	}
	return m.Infra.Labels
}

// Pool is the pool of the machine; empty if a machine of the Cluster is in none.
func (m *ClusterMachine) Pool() string { return m.Labels()[rkev1.MachinePoolLabel] }

// JoinMachines joins the machines of a Cluster with their CAPI Machines and Jobs, which are ordered
// newest first, and orders them by pool and name.
func JoinMachines(capi []clusterv1.Machine, infra []*Machine, jobs []batchv1.Job) []ClusterMachine {
	var all []ClusterMachine
	left := slices.Clone(infra)
	for i := range capi {
		one := ClusterMachine{CAPI: &capi[i]}
		if at := slices.IndexFunc(left, func(m *Machine) bool { return m.IsNamedBy(&capi[i]) }); at >= 0 {
			one.Infra = left[at]
			left = slices.Delete(left, at, at+1)
		}
		all = append(all, one)
	}
	for _, m := range left {
		all = append(all, ClusterMachine{Infra: m})
	}
	for i := range all {
		if m := all[i].Infra; m != nil {
			if at := slices.IndexFunc(jobs, func(job batchv1.Job) bool { return job.Labels[rkev1.MachineUIDLabel] == string(m.UID) }); at >= 0 {
				all[i].Job = &jobs[at]
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ClusterMachine) int {
		return cmp.Or(cmp.Compare(a.Pool(), b.Pool()), cmp.Compare(a.Name(), b.Name()))
	})
	return all
}

// MaxQuantity bounds the number of machines of a pool that the command line asks for.
const MaxQuantity = 1000

// Quantity is a number of machines that a pool shall have.
type Quantity struct {
	Pool     string
	Machines int64
}

// QuantityChange is a change of a pool's number of machines.
type QuantityChange struct {
	Pool     string
	From, To int64
}

// SetQuantities sets the number of machines of pools in the object of a provisioning Cluster. The
// rest of the object stays as it is, also fields that this version does not know.
func SetQuantities(object map[string]any, wanted []Quantity) ([]QuantityChange, error) {
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	pools, _, err := unstructured.NestedSlice(object, "spec", "rkeConfig", "machinePools")
	if err != nil {
		return nil, fmt.Errorf("reading the pools of the Cluster %s: %w", name, err)
	}
	if len(pools) == 0 {
		return nil, fmt.Errorf("the Cluster %s has no pools", name)
	}
	named := func(pool any) string {
		fields, _ := pool.(map[string]any)
		text, _ := fields["name"].(string)
		return text
	}
	var changes []QuantityChange
	for _, want := range wanted {
		at := slices.IndexFunc(pools, func(pool any) bool { return named(pool) == want.Pool })
		if at < 0 {
			var names []string
			for _, pool := range pools {
				names = append(names, named(pool))
			}
			return nil, fmt.Errorf("the Cluster %s has no pool %q; its pools are %s", name, want.Pool, strings.Join(names, ", "))
		}
		pool, _ := pools[at].(map[string]any)
		least, isAutoscaled := pool["autoscalingMinSize"].(int64)
		if most, bounded := pool["autoscalingMaxSize"].(int64); isAutoscaled || bounded {
			return nil, fmt.Errorf("quantity has no effect in pool %s: the cluster autoscaler sets its number of machines. Change autoscalingMinSize (%d) and autoscalingMaxSize (%d) instead",
				want.Pool, least, most)
		}
		from, found := pool["quantity"].(int64)
		if !found {
			from = 1
		}
		changes = append(changes, QuantityChange{want.Pool, from, want.Machines})
		pool["quantity"] = want.Machines
	}
	if err := unstructured.SetNestedSlice(object, pools, "spec", "rkeConfig", "machinePools"); err != nil {
		return nil, fmt.Errorf("setting the pools of the Cluster %s: %w", name, err)
	}
	return changes, nil
}
