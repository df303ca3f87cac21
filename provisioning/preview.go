package provisioning

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Effect is what a rendering does to the machines of a pool.
type Effect struct {
	// Pool is the name of the pool.
	Pool string
	// Made, Removed and Replaced are numbers of machines.
	Made, Removed, Replaced int32
	// Changes are the options of the Config for which machines are replaced.
	Changes []string
	// Waits is true if the machines are replaced only after an approval.
	Waits bool
	// Paused is true if the machines are replaced only when the pool is no longer paused.
	Paused bool
}

// IsZero reports whether the machines of the pool stay as they are.
func (e Effect) IsZero() bool { return e.Made == 0 && e.Removed == 0 && e.Replaced == 0 }

// String describes the effect in a sentence without a full stop.
func (e Effect) String() string {
	var parts []string
	if e.Replaced > 0 {
		text := counted(e.Replaced) + " replaced"
		if e.Waits {
			text += " after your approval"
		} else if e.Paused {
			text += " when the pool is no longer paused"
		}
		parts = append(parts, text+", because of: "+strings.Join(e.Changes, ", "))
	}
	if e.Removed > 0 {
		parts = append(parts, counted(e.Removed)+" deleted")
	}
	if e.Made > 0 {
		parts = append(parts, counted(e.Made)+" created")
	}
	return "pool " + e.Pool + ": " + strings.Join(parts, "; ")
}

func counted(machines int32) string {
	if machines == 1 {
		return "1 machine is"
	}
	return fmt.Sprintf("%d machines are", machines)
}

// Preview returns what a rendering does to machines, for each pool that it changes: pools of the
// specification first, in its order, then pools that it no longer has. It computes the effects from
// the rendered objects.
func Preview(in Input) ([]Effect, Result, error) {
	out, err := Render(in)
	if err != nil {
		return nil, Result{}, err
	}
	templates := map[string]clusterv1.ContractVersionedObjectReference{}
	for _, obj := range out.Objects {
		if deployment, ok := obj.(*clusterv1.MachineDeployment); ok {
			templates[deployment.Labels[rkev1.MachinePoolLabel]] = deployment.Spec.Template.Spec.InfrastructureRef
		}
	}
	var effects []Effect
	add := func(effect Effect) {
		if !effect.IsZero() {
			effects = append(effects, effect)
		}
	}
	named := map[string]bool{}
	for _, pool := range out.Pools {
		named[pool.Name] = true
		add(effectOn(pool, in.Pools[pool.Name], templates, out))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Pools)) {
		if made := in.Pools[name].Deployment; !named[name] && made != nil && !slices.Contains(out.Keep, made.Name) {
			add(Effect{Pool: name, Removed: ptr.Deref(made.Spec.Replicas, 0)})
		}
	}
	return effects, out, nil
}

// effectOn returns the effect on a pool of the specification.
func effectOn(pool Pool, in PoolInput, templates map[string]clusterv1.ContractVersionedObjectReference, out Result) Effect {
	effect := Effect{Pool: pool.Name}
	if in.Deployment == nil {
		effect.Made = pool.Rendered
		return effect
	}
	present, wanted := ptr.Deref(in.Deployment.Spec.Replicas, 0), pool.Rendered
	if pool.Autoscaled {
		wanted = present
	}
	effect.Made, effect.Removed = max(wanted-present, 0), max(present-wanted, 0)
	template, rendered := templates[pool.Name]
	switch made := in.Deployment; {
	case rendered && template != made.Spec.Template.Spec.InfrastructureRef:
		effect.Replaced, effect.Changes, effect.Paused = min(present, wanted), changes(in), pool.Paused
	case rendered && ptr.Deref(made.Spec.Paused, false) && !pool.Paused && made.Status.UpToDateReplicas != nil:
		outdated := ptr.Deref(made.Status.Replicas, 0) - *made.Status.UpToDateReplicas
		effect.Replaced, effect.Changes = max(min(outdated, wanted), 0), []string{"a change while the pool was paused"}
	}
	if out.Pending == nil {
		return effect
	}
	for _, pending := range out.Pending.Pools {
		if pending.Name == pool.Name {
			effect.Replaced, effect.Changes, effect.Waits = min(present, wanted), changes(in), true
		}
	}
	return effect
}
