package planner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Effect is what a change of a specification does to the machines of a cluster.
type Effect struct {
	// Field is the changed field below spec, with the name of the argument for machineGlobalConfig;
	// empty for the whole change.
	Field string `json:"field,omitempty"`
	// Restarted are the names of the machines whose distribution is restarted, and Updated of those
	// whose files change without a restart. Both are sorted.
	Restarted []string `json:"restarted,omitempty"`
	Updated   []string `json:"updated,omitempty"`
	// Unknown says why the effect of this field alone is not known; empty otherwise.
	Unknown string `json:"unknown,omitempty"`
}

// labelsField stands for the labels of machines, which selectors match.
const labelsField = "machinePools[].labels"

// Effects returns what a change of a control plane's specification, and of the labels of its machines,
// does: for each changed field, in the order of the type, and for the whole change. It uses the names,
// the specifications, the catalogues of releases and the names, labels and roles of the machines, and
// no Secret. It renders the plans of each machine for both specifications, so that an effect is the
// planner's and not a table's. The content of each object that a specification names is taken to be
// another than the content of any other object.
//
// It returns an error if one of the two specifications gives no plans.
func Effects(before, after Cluster) (fields []Effect, whole Effect, err error) {
	was, err := newPreview(before)
	if err != nil {
		return nil, Effect{}, fmt.Errorf("the present configuration: %w", err)
	}
	if whole, err = was.compare("", after); err != nil {
		return nil, Effect{}, err
	}
	add := func(name string, alone Cluster) {
		effect, err := was.compare(name, alone)
		if err != nil {
			effect = Effect{Field: name, Unknown: oneLine(err.Error())}
		}
		fields = append(fields, effect)
	}
	for _, field := range changedFields(before.Spec, after.Spec) {
		alone := before
		alone.Spec = *before.Spec.DeepCopy()
		field.set(&alone.Spec, after.Spec)
		add(field.name, alone)
	}
	labelled := before
	labelled.Machines = after.Machines
	if add(labelsField, labelled); len(fields[len(fields)-1].Restarted)+len(fields[len(fields)-1].Updated) == 0 {
		fields = fields[:len(fields)-1]
	}
	return fields, whole, nil
}

// preview has the plans of a cluster's machines for one specification, by the machines' names.
type preview map[string]plan.Plan

// newPreview renders the plan of each machine.
func newPreview(c Cluster) (preview, error) {
	c.Spec, c.Objects = withoutObjects(c)
	c.Tokens, c.Authorities = Tokens{Server: "server", Agent: "agent"}, Authorities{}
	p := newPlanner(c)
	for _, rule := range []func(*planner) *fault{(*planner).bounded, (*planner).releaseKnown} {
		if f := rule(p); f != nil {
			return nil, f
		}
	}
	p.init = p.server()
	all := preview{}
	for i := range p.Machines {
		m := &p.Machines[i]
		if m.Deleting || m.Roles == (Roles{}) || m.Roles.IsServer() && m != p.init {
			continue // it gets no plan
		}
		rendered, err := (&look{planner: p, Machine: m, joinTo: "https://server:6443"}).render()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		all[m.Name] = rendered
	}
	return all, nil
}

// server is the machine that has the cluster's data.
func (p *planner) server() *Machine {
	for _, m := range p.staying(isEtcd) {
		if p.hasMade(m) {
			return m
		}
	}
	return cmp.Or(first(p.staying(func(r Roles) bool { return r.Etcd && r.ControlPlane })), first(p.staying(isEtcd)), &Machine{Roles: Roles{Etcd: true, ControlPlane: true}})
}

func first(all []*Machine) *Machine {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// compare returns what another specification does to the machines.
func (was preview) compare(field string, c Cluster) (Effect, error) {
	is, err := newPreview(c)
	if err != nil {
		return Effect{}, err
	}
	effect := Effect{Field: field}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		switch {
		case isRestart(was[name], is[name]):
			effect.Restarted = append(effect.Restarted, name)
		case !reflect.DeepEqual(was[name], is[name]):
			effect.Updated = append(effect.Updated, name)
		}
	}
	return effect, nil
}

// isRestart reports whether an agent that applies the second plan after the first restarts the
// distribution: the installer restarts it if the stamp or the environment of the instruction differs.
func isRestart(was, is plan.Plan) bool {
	started := func(p plan.Plan) []plan.Instruction {
		all := slices.Clone(p.Instructions)
		for i := range all {
			all[i].Env = slices.DeleteFunc(slices.Clone(all[i].Env), func(v string) bool { return strings.HasPrefix(v, "DRAIN_HASH=") })
		}
		return all
	}
	return !reflect.DeepEqual(started(was), started(is))
}

// withoutObjects returns a specification that needs none of the objects that it names, and objects in
// their place. A registry's client certificate, which must be valid, becomes a file of its own.
func withoutObjects(c Cluster) (rkev1.RKEControlPlaneSpec, map[ObjectKey]Object) {
	spec := *c.Spec.DeepCopy()
	if spec.Registries != nil {
		for _, host := range slices.Sorted(maps.Keys(spec.Registries.Configs)) {
			config := spec.Registries.Configs[host]
			if config.TLSSecretName == "" {
				continue
			}
			name := config.TLSSecretName
			config.TLSSecretName = ""
			spec.Registries.Configs[host] = config
			spec.MachineSelectorFiles = append(spec.MachineSelectorFiles, rkev1.RKEProvisioningFiles{FileSources: []rkev1.ProvisioningFileSource{
				{Secret: rkev1.K8sObjectFileSource{Name: name, Items: []rkev1.KeyToPath{{Key: corev1.TLSCertKey, Path: "/preview/registries/" + host}}}}}})
		}
	}
	hashes := map[ObjectKey]string{}
	for i := range spec.MachineSelectorFiles {
		for j := range spec.MachineSelectorFiles[i].FileSources {
			source := &spec.MachineSelectorFiles[i].FileSources[j]
			for kind, from := range map[string]*rkev1.K8sObjectFileSource{SecretKind: &source.Secret, ConfigMapKind: &source.ConfigMap} {
				for k := range from.Items {
					hashes[ObjectKey{kind, from.Name + "/" + from.Items[k].Key}] = from.Items[k].Hash
					from.Items[k].Hash = ""
				}
			}
		}
	}
	objects := map[ObjectKey]Object{}
	for key, used := range NewUses(spec) {
		data := map[string][]byte{}
		for name := range used {
			if key.Kind == SecretKind && isSnapshotDefault(spec, key.Name, name) {
				continue
			}
			data[name] = []byte(key.Name + "/" + name + hashes[ObjectKey{key.Kind, key.Name + "/" + name}])
		}
		delete(data, rkev1.AuthConfigAuth) // must be base64; username and password are enough
		objects[key] = Object{Type: string(corev1.SecretTypeBasicAuth), Data: data, AuthorizedClusters: c.Name}
	}
	return spec, objects
}

// isSnapshotDefault reports whether a key of a Secret is a default for an empty field of spec.etcd.s3.
// The distribution needs a bucket, and no other default.
func isSnapshotDefault(spec rkev1.RKEControlPlaneSpec, secret, key string) bool {
	etcd := spec.ETCD
	return etcd != nil && etcd.S3 != nil && etcd.S3.CloudCredentialName == secret &&
		(strings.HasPrefix(key, "-") || strings.HasPrefix(key, "default") && key != "defaultBucket")
}

// changedField is a field of a specification that another one has with another value.
type changedField struct {
	name string
	// set copies the field.
	set func(to *rkev1.RKEControlPlaneSpec, from rkev1.RKEControlPlaneSpec)
}

// ownFields are set by Drover and have no effect on a machine.
var ownFields = []string{"clusterName", "managementClusterName"}

// changedFields returns the fields that differ, and the arguments of machineGlobalConfig one by one.
func changedFields(before, after rkev1.RKEControlPlaneSpec) []changedField {
	var all []changedField
	was, is := fieldsOf(reflect.ValueOf(&before).Elem()), fieldsOf(reflect.ValueOf(&after).Elem())
	for i := range is {
		name := is[i].name
		if slices.Contains(ownFields, name) || isEqual(was[i].value.Interface(), is[i].value.Interface()) {
			continue
		}
		if name == "machineGlobalConfig" {
			all = append(all, changedArguments(before.MachineGlobalConfig, after.MachineGlobalConfig)...)
			continue
		}
		all = append(all, changedField{name, func(to *rkev1.RKEControlPlaneSpec, from rkev1.RKEControlPlaneSpec) {
			fieldsOf(reflect.ValueOf(to).Elem())[i].value.Set(reflect.ValueOf(&from).Elem().FieldByIndex(fieldIndex(name)))
		}})
	}
	return all
}

// fieldIndex finds a field of the specification by its name in JSON.
func fieldIndex(name string) []int {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[rkev1.RKEControlPlaneSpec]()) {
		if is, _, _ := strings.Cut(field.Tag.Get("json"), ","); is == name && !field.Anonymous {
			return field.Index
		}
	}
	return nil
}

func changedArguments(was, is rkev1.Config) []changedField {
	names := map[string]bool{}
	for _, config := range []rkev1.Config{was, is} {
		for name := range config {
			names[name] = true
		}
	}
	var all []changedField
	for _, name := range slices.Sorted(maps.Keys(names)) {
		earlier, had := was[name]
		value, has := is[name]
		if had == has && isEqual(earlier, value) {
			continue
		}
		all = append(all, changedField{"machineGlobalConfig." + name, func(to *rkev1.RKEControlPlaneSpec, from rkev1.RKEControlPlaneSpec) {
			to.MachineGlobalConfig = maps.Clone(to.MachineGlobalConfig)
			if to.MachineGlobalConfig == nil {
				to.MachineGlobalConfig = rkev1.Config{}
			}
			if value, has := from.MachineGlobalConfig[name]; has {
				to.MachineGlobalConfig[name] = value
			} else {
				delete(to.MachineGlobalConfig, name)
			}
		}})
	}
	return all
}

// isEqual compares two values as the API server stores them, whatever the order of their keys.
func isEqual(a, b any) bool {
	decoded := func(value any) any {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var out any
		if err := json.Unmarshal(raw, &out); err != nil {
			return err
		}
		return out
	}
	return reflect.DeepEqual(decoded(a), decoded(b))
}
