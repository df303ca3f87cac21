package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	utilconversion "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controller of managed topologies holds all that it makes of a Cluster at once: the templates of the whole class, and for each object a copy of its
// template with all that the patches insert. Each of them has a bound, and their product had none. It is computed from sizes here, and nothing
// is built.

const (
	// maxTopology bounds what is made of one Cluster, in bytes of JSON. The controller holds about 20 times that, and a namespace can have most of
	// its workers; a MachineDeployment of an ordinary class, with kubeadm's configuration and twenty patches, is 10 KB to 20 KB.
	maxTopology = 4 << 20
	// maxMachineDeployments bounds those of a topology.
	maxMachineDeployments = 100
	// maxDefaulted bounds the variables of a Cluster with the defaults of their schemas, which come once for each object in them.
	maxDefaulted = 1 << 20
	// nodeWeight is what an element of JSON costs beside its text, smallBuiltin what a builtin variable other than metadata may be.
	nodeWeight, smallBuiltin = 32, 256
	// builtin is the variable that is made of the Cluster, anything stands for all variables.
	builtin, anything = "builtin", ""
)

// weigh tells what JSON costs, by what begins an element, and by what is written as six bytes when it is encoded again.
func weigh(raw []byte) int {
	size := len(raw)
	for mark, more := range map[string]int{",": nodeWeight, "{": nodeWeight, "[": nodeWeight, "<": 5, ">": 5, "&": 5} {
		size += more * bytes.Count(raw, []byte(mark))
	}
	return size
}

// weighTyped weighs what has no JSON yet: pieces of a Cluster or ClusterClass.
func weighTyped(values ...any) int {
	raw, err := json.Marshal(values)
	if err != nil {
		return maxTopology
	}
	return weigh(raw)
}

// weighContent weighs an unstructured object where it is.
func weighContent(value any) int {
	size := nodeWeight
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			size += len(key) + weighContent(child)
		}
	case []any:
		for _, child := range v {
			size += weighContent(child)
		}
	case string:
		size += len(v)
	}
	return size
}

// defaulted is the most that a schema adds to one object in a value of it, or puts in the place of a null.
func defaulted(schema *clusterv1.JSONSchemaProps) int {
	here, deepest := 0, 0
	for _, child := range children(schema) {
		within := defaulted(child)
		if child.Default != nil {
			here += withDefaults(child.Default.Raw, within)
		}
		deepest = max(deepest, within)
	}
	return min(max(here, deepest), 1<<30)
}

func withDefaults(raw []byte, each int) int {
	return weigh(raw) + each*(bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("null")))
}

// variableWeights are the largest values that each variable has anywhere in a Cluster's topology.
func variableWeights(cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) (map[string]int, error) {
	out, more := map[string]int{}, map[string]int{}
	define := func(name string, schema *clusterv1.JSONSchemaProps) bool {
		more[name] = max(more[name], defaulted(schema))
		if schema.Default != nil {
			out[name] = max(out[name], withDefaults(schema.Default.Raw, more[name]))
		}
		return true
	}
	written(class)(define)
	discovered(class)(define)
	sum := 0
	for _, size := range out {
		sum += size
	}
	for _, variable := range variablesOf(cluster) {
		size := withDefaults(variable.Value.Raw, more[variable.Name])
		sum += size
		out[variable.Name] = max(out[variable.Name], size)
	}
	if sum > maxDefaulted {
		return nil, fmt.Errorf("spec.topology: the variables with the defaults of their schemas are larger than %d KiB: give fewer objects, or shorten the defaults in the ClusterClass", maxDefaulted>>10)
	}
	return out, nil
}

// weighTemplates weighs all templates of a class, each as often as it is named, for so often the controller reads it. One that is not there has no
// weight: nothing is made without it.
func weighTemplates(ctx context.Context, reader client.Reader, class *clusterv1.ClusterClass) (templates map[clusterv1.ClusterClassTemplateReference]int, total int, err error) {
	refs := []clusterv1.ClusterClassTemplateReference{class.Spec.Infrastructure.TemplateRef, class.Spec.ControlPlane.TemplateRef, class.Spec.ControlPlane.MachineInfrastructure.TemplateRef}
	for _, one := range class.Spec.Workers.MachineDeployments {
		refs = append(refs, one.Bootstrap.TemplateRef, one.Infrastructure.TemplateRef)
	}
	for _, one := range class.Spec.Workers.MachinePools {
		refs = append(refs, one.Bootstrap.TemplateRef, one.Infrastructure.TemplateRef)
	}
	templates = map[clusterv1.ClusterClassTemplateReference]int{}
	for _, ref := range refs {
		if _, known := templates[ref]; !known && strings.HasSuffix(ref.Kind, clusterv1.TemplateSuffix) {
			template, err := external.Get(ctx, reader, ref.ToObjectReference(class.Namespace))
			if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
				return nil, 0, fmt.Errorf("reading what the ClusterClass names: %w", err)
			}
			templates[ref] = 0
			if err == nil {
				templates[ref] = weighContent(template.Object)
			}
		}
		total += templates[ref]
	}
	return templates, total, nil
}

// annotationsOf are those of a Cluster that patches can read.
func annotationsOf(cluster *clusterv1.Cluster) map[string]string {
	out := maps.Clone(cluster.Annotations)
	delete(out, corev1.LastAppliedConfigAnnotation)
	delete(out, utilconversion.DataAnnotation)
	return out
}

// checkWorkers bounds how many there are.
func checkWorkers(topology *clusterv1.Topology) error {
	if len(topology.Workers.MachinePools) > 0 {
		// The feature is off, and the controller would compute them all the same.
		return errors.New("spec.topology.workers: there are no MachinePools here, so that machinePools cannot be made: use machineDeployments")
	}
	if count := len(topology.Workers.MachineDeployments); count > maxMachineDeployments {
		return fmt.Errorf("spec.topology.workers: %d machineDeployments are more than %d: make several Clusters, or MachineDeployments without the topology", count, maxMachineDeployments)
	}
	return nil
}

// checkTopology bounds what is made of a Cluster and its class.
func checkTopology(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) error {
	topology := &cluster.Spec.Topology
	if err := checkWorkers(topology); err != nil {
		return err
	}
	variables, err := variableWeights(cluster, class)
	if err != nil {
		return err
	}
	builtins := smallBuiltin + weighTyped(cluster.Labels, annotationsOf(cluster), cluster.Spec.ClusterNetwork)
	sum := 0
	for _, size := range variables {
		sum += size
	}

	templates, total, err := weighTemplates(ctx, reader, class)
	if err != nil {
		return err
	}
	patches, rendered := insertions(class)
	if err := checkAliases(rendered, markVariables(cluster, class)); err != nil {
		return err
	}
	patched := 0
	// made counts an object; of is the weight of what the Cluster and the class say of it beside variables, templates and patches.
	made := func(ref clusterv1.ClusterClassTemplateReference, of int, role, class string) {
		total += templates[ref] + of
		for _, one := range patches {
			if total > maxTopology || !selects(one.selector, ref, role, class) {
				continue
			}
			inserted := one.fixed + one.uses[builtin]*(builtins+of) + one.uses[anything]*(sum+builtins+of)
			for name, times := range one.uses {
				inserted += times * variables[name]
			}
			total, patched = total+inserted, patched+inserted
		}
	}

	infrastructure, plane := class.Spec.Infrastructure.TemplateRef, class.Spec.ControlPlane
	ofPlane := weighTyped(plane, topology.ControlPlane.Metadata)
	made(infrastructure, 0, "infrastructure", "")
	made(plane.TemplateRef, ofPlane, "controlPlane", "")
	made(plane.MachineInfrastructure.TemplateRef, ofPlane, "controlPlane", "")
	for _, one := range topology.Workers.MachineDeployments {
		at := slices.IndexFunc(class.Spec.Workers.MachineDeployments, func(each clusterv1.MachineDeploymentClass) bool { return each.Class == one.Class })
		if at < 0 || total > maxTopology {
			continue
		}
		class := class.Spec.Workers.MachineDeployments[at]
		one.Variables = clusterv1.MachineDeploymentVariables{}
		of := weighTyped(class, one)
		total += of
		made(class.Bootstrap.TemplateRef, of, "workers", one.Class)
		made(class.Infrastructure.TemplateRef, of, "workers", one.Class)
	}
	if total > maxTopology {
		return fmt.Errorf("spec.topology: what the ClusterClass makes of it is larger than %d KiB (patches insert %d KiB or more, templates and metadata are %d KiB or more): "+
			"have fewer machineDeployments, smaller templates, or patches that insert less of variables and metadata", maxTopology>>10, patched>>10, (total-patched)>>10)
	}
	return nil
}
