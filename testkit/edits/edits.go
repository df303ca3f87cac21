// Package edits changes a provisioning Cluster and its Configs at random, as users do. Tests compare
// what a plan says about the changes with what happens.
package edits

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// World is a Cluster with its Configs, by their names.
type World struct {
	Cluster *provv1.Cluster
	Configs map[string]*unstructured.Unstructured
}

// New returns a Cluster with one server and two pools of workers. Configs are of the driver
// DigitalOcean, and name the credential.
func New(namespace, name, credential string) *World {
	w := &World{Cluster: &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, Configs: map[string]*unstructured.Unstructured{}}
	w.Cluster.Spec.KubernetesVersion, w.Cluster.Spec.CloudCredentialSecretName = "v1.36.3+k3s1", credential
	w.Cluster.Spec.RKEConfig = &provv1.RKEConfig{}
	pools := &w.Cluster.Spec.RKEConfig.MachinePools
	*pools = []provv1.MachinePool{w.pool("server", 1), w.pool("web", 2), w.pool("batch", 1)}
	(*pools)[0].EtcdRole, (*pools)[0].ControlPlaneRole, (*pools)[0].WorkerRole = true, true, false
	return w
}

// pool returns a pool of workers with a Config of its own.
func (w *World) pool(name string, quantity int32) provv1.MachinePool {
	config := &unstructured.Unstructured{Object: map[string]any{"size": "s-1vcpu-1gb"}}
	config.SetAPIVersion(rkev1.MachineConfigGroupVersion.String())
	config.SetKind("DigitaloceanConfig")
	config.SetNamespace(w.Cluster.Namespace)
	config.SetName(w.Cluster.Name + "-" + name)
	w.Configs[config.GetName()] = config
	return provv1.MachinePool{Name: name, Quantity: &quantity, WorkerRole: true, MachineConfigRef: provv1.ConfigReference{Kind: config.GetKind(), Name: config.GetName()}}
}

// Random makes one to three edits, and returns their names.
func Random(r *rand.Rand, w *World) []string {
	var names []string
	for range 1 + r.IntN(3) {
		edit := all[r.IntN(len(all))]
		if edit.apply(r, w) {
			names = append(names, edit.name)
		}
	}
	return names
}

// edit is one kind of edit. apply returns false if the Cluster has nothing to edit so.
type edit struct {
	name  string
	apply func(*rand.Rand, *World) bool
}

var all = []edit{
	{"global argument", func(r *rand.Rand, w *World) bool {
		setArgument(&w.Cluster.Spec.RKEConfig.MachineGlobalConfig, "kubelet-arg", []string{fmt.Sprintf("max-pods=%d", 100+r.IntN(5))})
		return true
	}},
	{"argument of servers", func(r *rand.Rand, w *World) bool {
		setArgument(&w.Cluster.Spec.RKEConfig.MachineGlobalConfig, "tls-san", []string{fmt.Sprintf("api-%d.example.org", r.IntN(4))})
		return true
	}},
	{"argument removed", func(_ *rand.Rand, w *World) bool {
		had := len(w.Cluster.Spec.RKEConfig.MachineGlobalConfig) > 0
		w.Cluster.Spec.RKEConfig.MachineGlobalConfig = nil
		return had
	}},
	{"argument of a pool", func(r *rand.Rand, w *World) bool {
		pool, config := anyPool(r, w), rkev1.Config{}
		setArgument(&config, "kubelet-arg", []string{fmt.Sprintf("max-pods=%d", 50+r.IntN(3))})
		w.Cluster.Spec.RKEConfig.MachineSelectorConfig = []rkev1.RKESystemConfig{{Config: config,
			MachineLabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{rkev1.MachinePoolLabel: pool.Name}}}}
		return true
	}},
	{"manifest", func(r *rand.Rand, w *World) bool {
		w.Cluster.Spec.RKEConfig.AdditionalManifest = fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: n-%d}}", r.IntN(4))
		return true
	}},
	{"environment", func(r *rand.Rand, w *World) bool {
		w.Cluster.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "K3S_TEST", Value: fmt.Sprint(r.IntN(3))}}
		return true
	}},
	{"registries", func(r *rand.Rand, w *World) bool {
		w.Cluster.Spec.RKEConfig.Registries = &rkev1.Registry{Mirrors: map[string]rkev1.Mirror{"docker.io": {Endpoints: []string{fmt.Sprintf("https://mirror-%d.example.org", r.IntN(3))}}}}
		return true
	}},
	{"chart values", func(r *rand.Rand, w *World) bool {
		setArgument(&w.Cluster.Spec.RKEConfig.ChartValues, "traefik", map[string]int{"replicas": r.IntN(3)})
		return true
	}},
	{"concurrency", func(r *rand.Rand, w *World) bool {
		w.Cluster.Spec.RKEConfig.UpgradeStrategy.WorkerConcurrency = fmt.Sprint(r.IntN(3))
		return true
	}},
	{"generation", func(_ *rand.Rand, w *World) bool { w.Cluster.Spec.RKEConfig.ProvisionGeneration++; return true }},
	{"field without effect", func(r *rand.Rand, w *World) bool {
		w.Cluster.Spec.RKEConfig.RotateCertificates = &rkev1.RotateCertificates{Generation: int64(r.IntN(3))}
		return true
	}},
	{"policy", func(r *rand.Rand, w *World) bool {
		w.Cluster.Spec.RKEConfig.MachineReplacement = []string{"", provv1.ReplaceAutomatically, provv1.ReplaceOnApproval, provv1.ReplaceNever}[r.IntN(4)]
		return true
	}},
	{"wrong approval", func(r *rand.Rand, w *World) bool {
		metav1.SetMetaDataAnnotation(&w.Cluster.ObjectMeta, provv1.ApproveReplacementAnnotation, fmt.Sprintf("%08x", r.Uint32()))
		return true
	}},
	{"size of a pool", func(r *rand.Rand, w *World) bool { anyPool(r, w).Quantity = new(int32(r.IntN(4))); return true }},
	{"pool added", func(r *rand.Rand, w *World) bool {
		pools := &w.Cluster.Spec.RKEConfig.MachinePools
		name := fmt.Sprintf("pool%d", r.IntN(6))
		if len(*pools) > 4 || slices.ContainsFunc(*pools, func(p provv1.MachinePool) bool { return p.Name == name }) {
			return false
		}
		*pools = append(*pools, w.pool(name, int32(1+r.IntN(2))))
		return true
	}},
	{"pool removed", func(r *rand.Rand, w *World) bool {
		pools := &w.Cluster.Spec.RKEConfig.MachinePools
		if len(*pools) < 3 {
			return false
		}
		at := r.IntN(len(*pools))
		*pools = slices.Delete(slices.Clone(*pools), at, at+1)
		return true
	}},
	{"pools in another order", func(r *rand.Rand, w *World) bool {
		pools := w.Cluster.Spec.RKEConfig.MachinePools
		r.Shuffle(len(pools), func(i, j int) { pools[i], pools[j] = pools[j], pools[i] })
		return true
	}},
	{"labels", func(r *rand.Rand, w *World) bool {
		anyPool(r, w).Labels = map[string]string{"example.org/tier": fmt.Sprint(r.IntN(3))}
		return true
	}},
	{"taints", func(r *rand.Rand, w *World) bool {
		anyPool(r, w).Taints = []corev1.Taint{{Key: "example.org/only", Value: fmt.Sprint(r.IntN(3)), Effect: corev1.TaintEffectPreferNoSchedule}}
		return true
	}},
	{"length of host names", func(r *rand.Rand, w *World) bool {
		anyPool(r, w).HostnameLengthLimit = int32(30 + r.IntN(3))
		return true
	}},
	{"rolling update", func(r *rand.Rand, w *World) bool {
		anyPool(r, w).RollingUpdate = &provv1.RollingUpdate{MaxSurge: new(intstr.FromInt32(int32(1 + r.IntN(2)))), MaxUnavailable: new(intstr.FromInt32(int32(r.IntN(2))))}
		return true
	}},
	{"drain", func(r *rand.Rand, w *World) bool {
		pool := anyPool(r, w)
		pool.DrainBeforeDelete = !pool.DrainBeforeDelete
		return true
	}},
	{"pool paused", func(r *rand.Rand, w *World) bool {
		pool := anyPool(r, w)
		pool.Paused = !pool.Paused
		return true
	}},
	{"option", func(r *rand.Rand, w *World) bool {
		anyConfig(r, w).Object["size"] = []string{"s-1vcpu-1gb", "s-1vcpu-2gb", "s-2vcpu-4gb"}[r.IntN(3)]
		return true
	}},
	{"option written as its default", func(r *rand.Rand, w *World) bool { anyConfig(r, w).Object["region"] = "nyc3"; return true }},
	{"list option", func(r *rand.Rand, w *World) bool {
		anyConfig(r, w).Object["tags"] = fmt.Sprintf("team-%d", r.IntN(3))
		return true
	}},
	{"shared Config", func(r *rand.Rand, w *World) bool {
		anyPool(r, w).MachineConfigRef.Name = anyConfig(r, w).GetName()
		return true
	}},
}

func setArgument(config *rkev1.Config, name string, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // the values of this file can be encoded
	}
	changed := rkev1.Config{}
	maps.Copy(changed, *config)
	changed[name] = apiextensionsv1.JSON{Raw: raw}
	*config = changed
}

func anyPool(r *rand.Rand, w *World) *provv1.MachinePool {
	pools := w.Cluster.Spec.RKEConfig.MachinePools
	return &pools[r.IntN(len(pools))]
}

// anyConfig returns a Config, each with the same probability for one seed.
func anyConfig(r *rand.Rand, w *World) *unstructured.Unstructured {
	var names []string
	for name := range w.Configs {
		names = append(names, name)
	}
	slices.Sort(names)
	return w.Configs[names[r.IntN(len(names))]]
}

// Copy returns a World that can be edited without a change of this one.
func (w *World) Copy() *World {
	copied := &World{Cluster: w.Cluster.DeepCopy(), Configs: map[string]*unstructured.Unstructured{}}
	for name, config := range w.Configs {
		copied.Configs[name] = config.DeepCopy()
	}
	return copied
}
