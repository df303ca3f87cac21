package provisioning_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/testkit/golden"
)

// rancher are the manifests in Rancher's shape.
func rancher(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/rancher/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 12)
	return files
}

// rendersOf reports whether the controller renders the Cluster of a manifest.
func rendersOf(t *testing.T, file string) (*provv1.Cluster, bool) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(content), "\n---\n")
	cluster := &provv1.Cluster{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(first), cluster))
	return cluster, cluster.Spec.RKEConfig != nil && cluster.Spec.RKEConfig.InfrastructureRef == nil
}

// TestRender_rancher: manifests in Rancher's shape give the objects in their golden files.
func TestRender_rancher(t *testing.T) {
	for _, file := range rancher(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cluster, renders := rendersOf(t, file)
			text := "# Nothing is rendered.\n"
			if renders {
				out, err := provisioning.Render(load(t, file))
				require.NoError(t, err)
				text = print(t, out)
			}
			if fields := provisioning.NotActedOn(cluster); len(fields) > 0 {
				text = "# Not acted on: " + strings.Join(fields, ", ") + "\n" + text
			}
			golden.Require(t, strings.TrimSuffix(file, ".yaml")+".golden", text)
		})
	}
}

// TestRender_order: the order of input lists without an order does not change the objects. The order
// of the pools decides only in which order the objects are applied.
func TestRender_order(t *testing.T) {
	for _, file := range append(rancher(t), "testdata/workers.yaml", "testdata/one-pool.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if _, renders := rendersOf(t, file); !renders {
				t.Skip("nothing is rendered")
			}
			for _, stage := range []func(testing.TB, provisioning.Input) provisioning.Input{
				func(_ testing.TB, in provisioning.Input) provisioning.Input { return in }, made,
			} {
				first := stage(t, load(t, file))
				out, err := provisioning.Render(first)
				require.NoError(t, err)
				want, wanted := print(t, out), sorted(t, out)
				for seed := range uint64(20) {
					random := rand.New(rand.NewPCG(seed, 1))
					in := stage(t, load(t, file))
					pools := in.Cluster.Spec.RKEConfig.MachinePools
					for i := range pools {
						random.Shuffle(len(pools[i].Taints), func(a, b int) { pools[i].Taints[a], pools[i].Taints[b] = pools[i].Taints[b], pools[i].Taints[a] })
						config := in.Pools[pools[i].Name]
						config.Config = reordered(random, config.Config)
						in.Pools[pools[i].Name] = config
					}
					out, err := provisioning.Render(in)
					require.NoError(t, err)
					require.Equal(t, want, print(t, out), "seed %d", seed)
					random.Shuffle(len(pools), func(a, b int) { pools[a], pools[b] = pools[b], pools[a] })
					out, err = provisioning.Render(in)
					require.NoError(t, err)
					require.Equal(t, wanted, sorted(t, out), "seed %d", seed)
				}
			}
		})
	}
}

// reordered returns an object whose map was filled in another order.
func reordered(random *rand.Rand, obj *unstructured.Unstructured) *unstructured.Unstructured {
	keys := make([]string, 0, len(obj.Object))
	for key := range obj.Object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	random.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
	out := &unstructured.Unstructured{Object: map[string]any{}}
	for _, key := range keys {
		out.Object[key] = obj.Object[key]
	}
	return out
}

// sorted are the rendered objects and findings, in the order of their text.
func sorted(t *testing.T, out provisioning.Result) []string {
	t.Helper()
	text := print(t, out)
	parts := strings.Split("\n"+text, "\n---\n")
	findings := strings.Split(parts[0], "\n")
	parts = append(findings, parts[1:]...)
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	slices.Sort(parts)
	return parts
}

// TestRender_golden: objects that are already as today's code renders them stay as they are, also after
// an upgrade of the manager: rendering over them gives the same objects.
func TestRender_golden(t *testing.T) {
	for _, file := range append(rancher(t), "testdata/workers.yaml", "testdata/one-pool.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if _, renders := rendersOf(t, file); !renders {
				t.Skip("nothing is rendered")
			}
			before, err := provisioning.Render(load(t, file))
			require.NoError(t, err)
			in := stored(t, load(t, file), strings.TrimSuffix(file, ".yaml")+".golden")
			after, err := provisioning.Render(in)
			require.NoError(t, err)
			require.Equal(t, print(t, before), print(t, after))
			effects, _, err := provisioning.Preview(in)
			require.NoError(t, err)
			require.Empty(t, effects)
		})
	}
}

// stored returns the input with the objects of a golden file, not with the ones of the present code.
func stored(t *testing.T, in provisioning.Input, path string) provisioning.Input {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	templates := map[string]*unstructured.Unstructured{}
	var deployments []*clusterv1.MachineDeployment
	for document := range strings.SplitSeq("\n"+string(content), "\n---\n") {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		require.NoError(t, yaml.Unmarshal([]byte(document), &obj.Object))
		switch {
		case obj.GetKind() == "MachineDeployment":
			deployment := &clusterv1.MachineDeployment{}
			require.NoError(t, yaml.Unmarshal([]byte(document), deployment))
			deployments = append(deployments, deployment)
		case strings.HasSuffix(obj.GetKind(), "MachineTemplate"):
			templates[obj.GetName()] = obj
		}
	}
	require.NotEmpty(t, deployments)
	for _, deployment := range deployments {
		name := deployment.Labels["rke.cattle.io/rke-machine-pool-name"]
		pool := in.Pools[name]
		pool.Deployment, pool.Template = deployment, templates[deployment.Spec.Template.Spec.InfrastructureRef.Name]
		require.NotNil(t, pool.Template)
		in.Pools[name] = pool
	}
	return in
}

// TestRender_autoscaled: quantity is the first number of machines of a pool that the autoscaler scales;
// without it, the pool starts with the smallest number. While the autoscaler is paused, it finds no
// sizes.
func TestRender_autoscaled(t *testing.T) {
	scaled := func(in provisioning.Input) (*clusterv1.MachineDeployment, provisioning.Result) {
		out, err := provisioning.Render(in)
		require.NoError(t, err)
		for _, obj := range out.Objects {
			if deployment, ok := obj.(*clusterv1.MachineDeployment); ok && strings.HasSuffix(deployment.Name, "-scaled") {
				return deployment, out
			}
		}
		return nil, out
	}
	in := load(t, "testdata/rancher/10-health.yaml")
	at := slices.IndexFunc(in.Cluster.Spec.RKEConfig.MachinePools, func(p provv1.MachinePool) bool { return p.Name == "scaled" })
	pool := &in.Cluster.Spec.RKEConfig.MachinePools[at]
	pool.AutoscalingMinSize, pool.AutoscalingMaxSize = new(int32(2)), new(int32(12))
	for quantity, first := range map[int32]int32{0: 2, 1: 2, 3: 3, 20: 12} {
		pool.Quantity = &quantity
		deployment, out := scaled(in)
		require.Nil(t, deployment.Spec.Replicas)
		at := slices.IndexFunc(out.Pools, func(p provisioning.Pool) bool { return p.Name == "scaled" })
		require.Equal(t, first, out.Pools[at].Rendered, "quantity %d", quantity)
		require.Equal(t, quantity != 1, slices.Contains(provisioning.NotActedOn(in.Cluster), "rkeConfig.machinePools[scaled].quantity"))
	}
	deployment, out := scaled(in)
	require.Equal(t, "2", deployment.Annotations[clusterv1.AutoscalerMinSizeAnnotation])
	require.Equal(t, "true", out.Cluster.Annotations["provisioning.cattle.io/cluster-autoscaler-enabled"])
	require.NotContains(t, out.Cluster.Annotations, "provisioning.cattle.io/cluster-autoscaler-paused")

	in.Cluster.Annotations = map[string]string{"provisioning.cattle.io/cluster-autoscaler-paused": "true"}
	deployment, out = scaled(in)
	require.NotContains(t, deployment.Annotations, clusterv1.AutoscalerMinSizeAnnotation)
	require.NotContains(t, deployment.Annotations, clusterv1.AutoscalerMaxSizeAnnotation)
	require.Equal(t, "scaled by the autoscaler", deployment.Annotations["note"])
	require.Nil(t, deployment.Spec.Replicas, "the number stays")
	require.Equal(t, "true", out.Cluster.Annotations["provisioning.cattle.io/cluster-autoscaler-paused"])
	require.NotContains(t, out.Cluster.Annotations, "provisioning.cattle.io/cluster-autoscaler-enabled")
}
