package provisioning

import "github.com/drover-project/drover/planner"

// WithoutEffect returns the paths of the fields below spec that have no effect. The value is true for a
// field that has none only in a pool with the role etcd or control plane.
func WithoutEffect() map[string]bool {
	paths := map[string]bool{}
	collect(paths, "", clusterFields, false)
	for _, field := range planner.FieldsNotActedOn() {
		paths[Path(field)] = false
	}
	collect(paths, "rkeConfig.machinePools[].", poolFields, false)
	collect(paths, "rkeConfig.machinePools[].", serverPoolFields, true)
	return paths
}

func collect[T any](paths map[string]bool, prefix string, fields []field[T], ofServers bool) {
	for _, f := range fields {
		paths[prefix+f.path] = ofServers
	}
}
