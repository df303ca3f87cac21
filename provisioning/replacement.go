package provisioning

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// replacement is the change of a pool's machine template that replaces its machines.
type replacement struct {
	pool     string
	machines int32
	fields   []string
	// from and to are the templates.
	from, to string
}

// replacements returns the replacements that the Configs ask for, in the order of the pools. The
// pool that holds the cluster's data is never replaced.
func (r *renderer) replacements() ([]replacement, error) {
	var all []replacement
	for i := range r.Cluster.Spec.RKEConfig.MachinePools {
		pool := &r.Cluster.Spec.RKEConfig.MachinePools[i]
		in := r.Pools[pool.Name]
		if in.Deployment == nil || in.Config == nil || in.Refused != nil || pool.Name == r.founder || r.unsupported(pool) != nil {
			continue
		}
		machines := max(ptr.Deref(in.Deployment.Spec.Replicas, 0), ptr.Deref(in.Deployment.Status.Replicas, 0))
		template, err := machineTemplate(r.Cluster, pool, in)
		if err != nil {
			return nil, err
		}
		used := in.Deployment.Spec.Template.Spec.InfrastructureRef
		from, to := used.Kind+"/"+used.Name, template.GetKind()+"/"+template.GetName()
		if machines > 0 && from != to {
			all = append(all, replacement{pool: pool.Name, machines: machines, fields: changedFields(in), from: from, to: to})
		}
	}
	return all, nil
}

// changedFields are the names of the options that differ between a pool's template and its Config.
// It names no values, because some are secrets.
func changedFields(in PoolInput) []string {
	if in.Template == nil || in.Template.GetKind() != templateKind(in.Config.GetKind()) {
		return []string{"machineConfigRef.kind"}
	}
	was, is := templateOptions(in.Template), Options(in.Config)
	names := slices.Collect(maps.Keys(is))
	for name := range was {
		if _, both := is[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return equality.Semantic.DeepEqual(was[name], is[name]) })
}

// pendingID identifies a set of replacements: an approval names it.
func pendingID(all []replacement) string {
	sum := sha256.New()
	for _, one := range all {
		sum.Write([]byte(one.pool + "\x00" + one.from + "\x00" + one.to + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

// decideReplacements decides whether the machines are replaced now. If not, it reports what waits.
func (r *renderer) decideReplacements() error {
	policy := r.Cluster.Spec.RKEConfig.MachineReplacement
	if policy == "" || policy == provv1.ReplaceAutomatically {
		return nil
	}
	all, err := r.replacements()
	if err != nil || len(all) == 0 {
		return err
	}
	pending := &provv1.PendingReplacement{ID: pendingID(all)}
	if policy == provv1.ReplaceOnApproval && r.Cluster.Annotations[provv1.ApproveReplacementAnnotation] == pending.ID {
		return nil
	}
	r.waits = map[string]bool{}
	for _, one := range all {
		pending.Pools = append(pending.Pools, provv1.PendingPool{Name: one.pool, Machines: one.machines, Fields: one.fields})
		r.waits[one.pool] = true
	}
	r.out.Pending = pending
	return nil
}

// keptTemplate returns a reference to the template that a MachineDeployment uses.
func keptTemplate(in PoolInput) *unstructured.Unstructured {
	used := in.Deployment.Spec.Template.Spec.InfrastructureRef
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(machineGroup.WithKind(used.Kind))
	template.SetName(used.Name)
	return template
}
