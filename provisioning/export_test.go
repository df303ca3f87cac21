package provisioning

import "github.com/drover-project/drover/planner"

// WithoutEffect returns the paths of the fields below spec that have no effect, each with the pools in
// which it has none; empty for a field that never has one.
func WithoutEffect() map[string]string {
	paths := map[string]string{}
	for _, path := range planner.FieldsNotActedOn() {
		paths[Path(path)] = ""
	}
	collect(paths, "", "", clusterFields)
	collect(paths, "", pools, poolFields)
	collect(paths, "in a pool with the role etcd or control plane", pools, serverPoolFields)
	collect(paths, "in a pool whose Config names a host", pools, hostPoolFields)
	collect(paths, "in a pool with autoscaling sizes, once it exists", pools, scaledPoolFields)
	return paths
}

const pools = "rkeConfig.machinePools[]."

func collect[T any](paths map[string]string, where, prefix string, fields []field[T]) {
	for _, f := range fields {
		paths[prefix+f.path] = where
	}
}
