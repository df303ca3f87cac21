package provisioning

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// How a changed field of a Cluster reaches its machines.
const (
	// ReachesMachines: Cluster API copies it to existing Machines, and none is replaced or restarted.
	ReachesMachines = "machines"
	// ReachesNewMachines: only machines that are created from now on get it.
	ReachesNewMachines = "newMachines"
	// ReachesSettings: no machine changes; the field controls what later happens to them.
	ReachesSettings = "settings"
)

// Change is a changed field of a Cluster that replaces no machine and is no part of the machines'
// configuration.
type Change struct {
	// Field is its path below spec; a pool is named by its name.
	Field string `json:"field"`
	// Reaches is one of the constants above.
	Reaches string `json:"reaches"`
}

// Changes returns the fields in which a Cluster differs from an earlier one. It renders the Cluster
// with each field alone, and compares the objects. It leaves out the fields that Preview reports
// (numbers of machines, Configs, added and removed pools), the fields of the configuration, which
// planner.Effects reports, and those that NotActedOn reports.
func Changes(before, after *provv1.Cluster) ([]Change, error) {
	var all []Change
	add := func(path string, cluster *provv1.Cluster) error {
		reaches, err := reach(before, cluster)
		if reaches != "" {
			all = append(all, Change{Field: path, Reaches: reaches})
		}
		return err
	}
	for _, field := range clusterSettings {
		alone := before.DeepCopy()
		if field.set(alone, after); !equality.Semantic.DeepEqual(before.Spec, alone.Spec) {
			if err := add(field.path, alone); err != nil {
				return nil, err
			}
		}
	}
	for i := range before.Spec.RKEConfig.MachinePools {
		was := &before.Spec.RKEConfig.MachinePools[i]
		at := slices.IndexFunc(after.Spec.RKEConfig.MachinePools, func(p provv1.MachinePool) bool { return p.Name == was.Name })
		if at < 0 {
			continue
		}
		is := reflect.ValueOf(&after.Spec.RKEConfig.MachinePools[at]).Elem()
		for field, value := range reflect.ValueOf(was).Elem().Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			changed := is.FieldByIndex(field.Index)
			if slices.Contains(previewed, name) || equality.Semantic.DeepEqual(value.Interface(), changed.Interface()) {
				continue
			}
			alone := before.DeepCopy()
			reflect.ValueOf(&alone.Spec.RKEConfig.MachinePools[i]).Elem().FieldByIndex(field.Index).Set(changed)
			if err := add("rkeConfig.machinePools["+was.Name+"]."+name, alone); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// previewed are the fields of a pool that Preview reports.
var previewed = []string{"name", "quantity", "machineConfigRef"}

// clusterSettings are the fields outside of the pools that no machine's configuration has.
var clusterSettings = []struct {
	path string
	set  func(to, from *provv1.Cluster)
}{
	{"cloudCredentialSecretName", func(to, from *provv1.Cluster) {
		to.Spec.CloudCredentialSecretName = from.Spec.CloudCredentialSecretName
	}},
	{"rkeConfig.machinePoolDefaults", func(to, from *provv1.Cluster) {
		to.Spec.RKEConfig.MachinePoolDefaults = from.Spec.RKEConfig.MachinePoolDefaults
	}},
	{"rkeConfig.machineReplacement", func(to, from *provv1.Cluster) {
		to.Spec.RKEConfig.MachineReplacement = from.Spec.RKEConfig.MachineReplacement
	}},
}

// reach returns how the difference between two Clusters reaches machines; empty if it has no effect.
func reach(before, after *provv1.Cluster) (string, error) {
	was, err := poolObjects(before)
	if err != nil {
		return "", err
	}
	is, err := poolObjects(after)
	if err != nil {
		return "", err
	}
	reaches := ""
	if before.Spec.RKEConfig.MachineReplacement != after.Spec.RKEConfig.MachineReplacement {
		reaches = ReachesSettings
	}
	for name, pool := range is {
		earlier := was[name]
		old, now := earlier.made.Spec.Template.ObjectMeta, pool.made.Spec.Template.ObjectMeta
		switch limit := rkev1.HostnameLengthLimitAnnotation; {
		case !equality.Semantic.DeepEqual(old.Labels, now.Labels),
			slices.ContainsFunc([]string{rkev1.NodeLabelsAnnotation, rkev1.NodeTaintsAnnotation, rkev1.CredentialAnnotation}, func(a string) bool { return old.Annotations[a] != now.Annotations[a] }):
			return ReachesMachines, nil
		case old.Annotations[limit] != now.Annotations[limit]:
			reaches = ReachesNewMachines
		case reaches == "" && !equality.Semantic.DeepEqual(earlier.made, pool.made), reaches == "" && !equality.Semantic.DeepEqual(earlier.check, pool.check):
			reaches = ReachesSettings
		}
	}
	return reaches, nil
}

// poolObject are the objects of a pool, without a machine template.
type poolObject struct {
	made  *clusterv1.MachineDeployment
	check *clusterv1.MachineHealthCheck
}

// poolObjects renders the objects of each pool as for a Cluster that does not exist yet.
func poolObjects(cluster *provv1.Cluster) (map[string]poolObject, error) {
	all := map[string]poolObject{}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		pool := &cluster.Spec.RKEConfig.MachinePools[i]
		made, err := deployment(cluster, pool, &unstructured.Unstructured{}, quantity(pool))
		if err != nil {
			return nil, err
		}
		all[pool.Name] = poolObject{made, healthCheck(cluster, pool)}
	}
	return all, nil
}
