package manifest

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Cluster is the description of a new cluster.
type Cluster struct {
	Namespace, Name string
	// Version is the Kubernetes version.
	Version string
	// Credential names the Secret with the cloud's credential: name, or namespace:name; may be
	// empty.
	Credential string
	Pools      []Pool
	// Set are options: OPTION=VALUE for all pools, POOL.OPTION=VALUE for one, which wins.
	Set []string
}

// Objects builds the Configs, in the order of the pools, and last the Cluster.
func (c *Cluster) Objects(schema *Schema) ([]*unstructured.Unstructured, error) {
	// The empty pool has the options of all pools.
	options := map[string]map[string]any{"": {}}
	for _, pool := range c.Pools {
		options[pool.Name] = map[string]any{}
	}
	for _, text := range c.Set {
		if err := set(schema, options, text); err != nil {
			return nil, err
		}
	}
	var objects []*unstructured.Unstructured
	var pools []any
	for _, pool := range c.Pools {
		name := c.Name + "-" + pool.Name
		config := map[string]any{
			"apiVersion": rkev1.MachineConfigGroupVersion.String(), "kind": schema.Kind,
			"metadata": map[string]any{"namespace": c.Namespace, "name": name},
		}
		maps.Copy(config, options[""])
		maps.Copy(config, options[pool.Name])
		objects = append(objects, &unstructured.Unstructured{Object: config})
		pools = append(pools, pool.object(schema.Kind, name))
	}
	spec := map[string]any{"kubernetesVersion": c.Version, "rkeConfig": map[string]any{"machinePools": pools}}
	if c.Credential != "" {
		spec["cloudCredentialSecretName"] = c.Credential
	}
	return append(objects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": provv1.GroupVersion.String(), "kind": "Cluster",
		"metadata": map[string]any{"namespace": c.Namespace, "name": c.Name},
		"spec":     spec,
	}}), nil
}

// set sets an option of one pool or of all.
func set(schema *Schema, options map[string]map[string]any, text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" {
		// The text may be a secret that was mistyped: it is not repeated.
		return errors.New("an argument of --set is not OPTION=VALUE or POOL.OPTION=VALUE")
	}
	pool, option, ofPool := strings.Cut(name, ".")
	if !ofPool {
		pool, option = "", name
	} else if pool == "" || options[pool] == nil {
		return fmt.Errorf("--set %s: the cluster has no pool %q", name, pool)
	}
	return schema.set(options[pool], option, value)
}

func (p *Pool) object(kind, config string) map[string]any {
	pool := map[string]any{
		"name": p.Name, "quantity": p.Quantity,
		"machineConfigRef": map[string]any{"kind": kind, "name": config},
	}
	for field, given := range map[string]bool{"etcdRole": p.Etcd, "controlPlaneRole": p.ControlPlane, "workerRole": p.Worker} {
		if given {
			pool[field] = true
		}
	}
	return pool
}
