package provisioning_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/testkit/golden"
)

// load reads a Cluster and its Configs.
func load(tb testing.TB, path string) provisioning.Input {
	tb.Helper()
	content, err := os.ReadFile(path)
	require.NoError(tb, err)
	cluster := &provv1.Cluster{}
	configs := map[string]*unstructured.Unstructured{}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		obj := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(document))
		require.NoError(tb, err)
		require.NoError(tb, obj.UnmarshalJSON(raw))
		if obj.GetKind() == "Cluster" {
			require.NoError(tb, yaml.UnmarshalStrict([]byte(document), cluster))
			continue
		}
		configs[obj.GetName()] = obj
	}
	in := provisioning.Input{Cluster: cluster, Pools: map[string]provisioning.PoolInput{}}
	if cluster.Spec.RKEConfig == nil {
		return in
	}
	for _, pool := range cluster.Spec.RKEConfig.MachinePools {
		in.Pools[pool.Name] = provisioning.PoolInput{Config: configs[pool.MachineConfigRef.Name]}
	}
	return in
}

// print writes everything that a rendering has.
func print(t *testing.T, out provisioning.Result) string {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clusterv1.AddToScheme(scheme))
	require.NoError(t, rkev1.AddToScheme(scheme))
	var b strings.Builder
	for _, finding := range out.Findings {
		b.WriteString("# " + finding.Pool + " " + finding.Reason + ": " + finding.Message + ". " + finding.Next + "\n")
	}
	for _, obj := range append([]provisioning.Object{out.Cluster}, out.Objects...) {
		gvk, err := apiutil.GVKForObject(obj, scheme)
		require.NoError(t, err)
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		text, err := yaml.Marshal(obj)
		require.NoError(t, err)
		b.WriteString("---\n" + string(text))
	}
	return b.String()
}

func TestRender(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			first, err := provisioning.Render(load(t, file))
			require.NoError(t, err)
			second, err := provisioning.Render(load(t, file))
			require.NoError(t, err)
			require.Equal(t, print(t, first), print(t, second), "the same input gives the same objects")
			golden.Require(t, strings.TrimSuffix(file, ".yaml")+".golden", print(t, first))
		})
	}
}

// made returns the input with the objects of its first rendering.
func made(tb testing.TB, in provisioning.Input) provisioning.Input {
	tb.Helper()
	out, err := provisioning.Render(in)
	require.NoError(tb, err)
	templates := map[string]*unstructured.Unstructured{}
	for _, obj := range out.Objects {
		if template, ok := obj.(*unstructured.Unstructured); ok {
			templates[template.GetName()] = template
		}
	}
	for _, obj := range out.Objects {
		if deployment, ok := obj.(*clusterv1.MachineDeployment); ok {
			pool := in.Pools[deployment.Labels[rkev1.MachinePoolLabel]]
			pool.Deployment, pool.Template = deployment, templates[deployment.Spec.Template.Spec.InfrastructureRef.Name]
			in.Pools[deployment.Labels[rkev1.MachinePoolLabel]] = pool
		}
	}
	return in
}

// templateOf is the machine template that a pool's MachineDeployment uses.
func templateOf(t *testing.T, in provisioning.Input, pool string) string {
	t.Helper()
	out, err := provisioning.Render(in)
	require.NoError(t, err)
	for _, obj := range out.Objects {
		if deployment, ok := obj.(*clusterv1.MachineDeployment); ok && deployment.Labels[rkev1.MachinePoolLabel] == pool {
			return deployment.Spec.Template.Spec.InfrastructureRef.Name
		}
	}
	return ""
}

// TestRender_template: only another value of a driver's option makes another template.
func TestRender_template(t *testing.T) {
	for name, test := range map[string]struct {
		change func(config *unstructured.Unstructured, in *provisioning.Input)
		isNew  bool
	}{
		"another value":  {func(config *unstructured.Unstructured, _ *provisioning.Input) { config.Object["size"] = "s-1vcpu-1gb" }, true},
		"another option": {func(config *unstructured.Unstructured, _ *provisioning.Input) { config.Object["tags"] = "a" }, true},
		"an option less": {func(config *unstructured.Unstructured, _ *provisioning.Input) { delete(config.Object, "size") }, true},
		"an empty value": {func(config *unstructured.Unstructured, _ *provisioning.Input) { config.Object["tags"] = "" }, false},
		"common": {func(config *unstructured.Unstructured, _ *provisioning.Input) {
			config.Object["common"] = map[string]any{"labels": map[string]any{"a": "b"}}
		}, false},
		"another generation":   {func(config *unstructured.Unstructured, _ *provisioning.Input) { config.SetGeneration(9) }, false},
		"another UID (a move)": {func(config *unstructured.Unstructured, _ *provisioning.Input) { config.SetUID("other") }, false},
		"labels of the pool": {func(_ *unstructured.Unstructured, in *provisioning.Input) {
			in.Cluster.Spec.RKEConfig.MachinePools[2].Labels = map[string]string{"other": "label"}
		}, false},
		"a credential": {func(_ *unstructured.Unstructured, in *provisioning.Input) {
			in.Cluster.Spec.CloudCredentialSecretName = "other"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := made(t, load(t, "testdata/workers.yaml"))
			before := templateOf(t, in, "workers")
			config := in.Pools["workers"].Config.DeepCopy()
			pool := in.Pools["workers"]
			pool.Config = config
			in.Pools["workers"] = pool
			test.change(config, &in)
			if test.isNew {
				config.SetGeneration(config.GetGeneration() + 1)
			}
			require.Equal(t, !test.isNew, templateOf(t, in, "workers") == before)
		})
	}
}

// TestRender_default: an option that the template lacks does not differ from its default, and a value is
// shown only if it is no secret.
func TestRender_default(t *testing.T) {
	in := made(t, load(t, "testdata/workers.yaml"))
	before := templateOf(t, in, "workers")
	pool := in.Pools["workers"]
	pool.Fields = map[string]crdgen.Field{"size": {Name: "size"}, "sshPort": {Name: "sshPort", Default: "22"}, "token": {Name: "token", Secret: true}}
	in.Pools["workers"] = pool
	pool.Config.SetGeneration(9)
	pool.Config.Object["sshPort"] = "22"
	require.Equal(t, before, templateOf(t, in, "workers"))
	pool.Config.Object["sshPort"] = "2222"
	require.NotEqual(t, before, templateOf(t, in, "workers"))
	pool.Config.Object["size"], pool.Config.Object["token"], pool.Config.Object["unknown"] = "s-8vcpu-16gb", "hidden", "hidden"
	effects, _, err := provisioning.Preview(in)
	require.NoError(t, err)
	require.Equal(t, "pool workers: 2 machines are replaced when the pool is no longer paused, because of: size from s-4vcpu-8gb to s-8vcpu-16gb, sshPort from none to 2222, token, unknown", effects[0].String())
}

// TestRender_unchangedConfig: the generation that a template notes decides, before the options do.
// A driver's new default changes the options of a Config and not its generation.
func TestRender_unchangedConfig(t *testing.T) {
	in := made(t, load(t, "testdata/workers.yaml"))
	before := templateOf(t, in, "workers")
	in.Pools["workers"].Config.Object["tags"] = "a new default"
	require.Equal(t, before, templateOf(t, in, "workers"))
}

// TestRender_founder: no change hands the machine with the cluster's data to Cluster API.
func TestRender_founder(t *testing.T) {
	for name, change := range map[string]func(in *provisioning.Input){
		"quantity 0": func(in *provisioning.Input) { in.Cluster.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(0)) },
		"another size": func(in *provisioning.Input) {
			config := in.Pools["server"].Config
			config.Object["size"] = "another"
			config.SetGeneration(2)
		},
		"the template is gone": func(in *provisioning.Input) {
			pool := in.Pools["server"]
			pool.Template = nil
			pool.Config.Object["size"] = "another"
			in.Pools["server"] = pool
		},
		"another kind": func(in *provisioning.Input) {
			pool := in.Pools["server"]
			pool.Config.SetKind("LinodeConfig")
			in.Pools["server"] = pool
		},
		"a pool before it": func(in *provisioning.Input) {
			first := in.Cluster.Spec.RKEConfig.MachinePools[0]
			first.Name = "first"
			in.Pools["first"] = provisioning.PoolInput{Config: in.Pools["server"].Config}
			in.Cluster.Spec.RKEConfig.MachinePools = append([]provv1.MachinePool{first}, in.Cluster.Spec.RKEConfig.MachinePools...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := made(t, load(t, "testdata/workers.yaml"))
			before := templateOf(t, in, "server")
			change(&in)
			out, err := provisioning.Render(in)
			require.NoError(t, err)
			require.Equal(t, before, templateOf(t, in, "server"))
			servers := 0
			for _, obj := range out.Objects {
				if deployment, ok := obj.(*clusterv1.MachineDeployment); ok && deployment.Spec.Template.Labels[rkev1.EtcdRoleLabel] != "" {
					require.Equal(t, int32(1), *deployment.Spec.Replicas)
					servers++
				}
			}
			require.Equal(t, 1, servers)
		})
	}
	t.Run("removed", func(t *testing.T) {
		in := made(t, load(t, "testdata/workers.yaml"))
		in.Cluster.Spec.RKEConfig.MachinePools = in.Cluster.Spec.RKEConfig.MachinePools[1:]
		out, err := provisioning.Render(in)
		require.NoError(t, err)
		require.Contains(t, out.Keep, "one-server")
		require.Equal(t, provv1.PoolHoldsEtcdReason, out.Findings[len(out.Findings)-1].Reason)
	})
}

// TestRender_forced: with the annotation, a change takes the machine with the cluster's data.
func TestRender_forced(t *testing.T) {
	render := func(t *testing.T, in provisioning.Input) (*clusterv1.MachineDeployment, provisioning.Result) {
		out, err := provisioning.Render(in)
		require.NoError(t, err)
		for _, obj := range out.Objects {
			if deployment, ok := obj.(*clusterv1.MachineDeployment); ok && deployment.Name == "one-server" {
				return deployment, out
			}
		}
		return nil, out
	}
	forced := func(t *testing.T) provisioning.Input {
		in := made(t, load(t, "testdata/workers.yaml"))
		in.Cluster.Annotations = map[string]string{rkev1.EtcdForceRemoveAnnotation: "true"}
		return in
	}
	held := func(out provisioning.Result) bool {
		return slices.ContainsFunc(out.Findings, func(f provisioning.Finding) bool { return f.Reason == provv1.PoolHoldsEtcdReason })
	}
	t.Run("no change", func(t *testing.T) {
		in := forced(t)
		server, out := render(t, in)
		require.Equal(t, in.Pools["server"].Deployment.Spec, server.Spec)
		require.Empty(t, out.LosesData)
	})
	t.Run("quantity 0", func(t *testing.T) {
		in := forced(t)
		in.Cluster.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(0))
		server, out := render(t, in)
		require.Equal(t, int32(0), *server.Spec.Replicas)
		require.Equal(t, "server", out.LosesData)
		require.False(t, held(out))
		// Without machines the pool holds no data, also without the annotation.
		pool := in.Pools["server"]
		pool.Deployment = server
		in.Pools["server"], in.Cluster.Annotations = pool, nil
		server, out = render(t, in)
		require.Nil(t, server)
		require.Contains(t, out.Keep, "one-server")
		require.Empty(t, out.LosesData)
		require.False(t, held(out))
		pool.Deployment.Status.Replicas = new(int32(1))
		_, out = render(t, in)
		require.True(t, held(out), "a machine is being deleted")
	})
	t.Run("another size", func(t *testing.T) {
		in := forced(t)
		config := in.Pools["server"].Config
		config.Object["size"] = "another"
		config.SetGeneration(2)
		server, out := render(t, in)
		require.NotEqual(t, in.Pools["server"].Deployment.Spec.Template.Spec.InfrastructureRef, server.Spec.Template.Spec.InfrastructureRef)
		update := server.Spec.Rollout.Strategy.RollingUpdate
		require.Equal(t, "0 1", update.MaxSurge.String()+" "+update.MaxUnavailable.String(), "a second server could not join")
		require.Equal(t, "server", out.LosesData)
		require.False(t, held(out))
		in.Cluster.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval
		server, out = render(t, in)
		require.Equal(t, in.Pools["server"].Deployment.Spec.Template.Spec.InfrastructureRef, server.Spec.Template.Spec.InfrastructureRef, "it waits for an approval, too")
		require.Equal(t, "server", out.Pending.Pools[0].Name)
		require.Empty(t, out.LosesData)
	})
	t.Run("removed", func(t *testing.T) {
		in := forced(t)
		in.Cluster.Spec.RKEConfig.MachinePools = in.Cluster.Spec.RKEConfig.MachinePools[1:]
		_, out := render(t, in)
		require.NotContains(t, out.Keep, "one-server")
		require.Equal(t, "server", out.LosesData)
		require.False(t, held(out))
	})
	t.Run("another value of the annotation", func(t *testing.T) {
		in := forced(t)
		in.Cluster.Annotations[rkev1.EtcdForceRemoveAnnotation] = "false"
		in.Cluster.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(0))
		_, out := render(t, in)
		require.True(t, held(out))
	})
}

// TestRender_replacement: with OnApproval and Never no machine is replaced without the approval of
// exactly this change.
func TestRender_replacement(t *testing.T) {
	in := made(t, load(t, "testdata/workers.yaml"))
	resize := func(size string) {
		config := in.Pools["workers"].Config
		config.Object["size"] = size
		config.SetGeneration(config.GetGeneration() + 1)
	}
	render := func(policy, approval string) (*provv1.PendingReplacement, string) {
		in.Cluster.Spec.RKEConfig.MachineReplacement = policy
		in.Cluster.Annotations = map[string]string{provv1.ApproveReplacementAnnotation: approval}
		out, err := provisioning.Render(in)
		require.NoError(t, err)
		return out.Pending, templateOf(t, in, "workers")
	}
	pending, before := render(provv1.ReplaceOnApproval, "")
	require.Nil(t, pending, "nothing changed")

	resize("s-8vcpu-16gb")
	pending, used := render(provv1.ReplaceOnApproval, "")
	require.Equal(t, before, used)
	// The pool "scaled" has the same Config, and no number of machines of its own yet.
	require.Equal(t, []provv1.PendingPool{{Name: "workers", Machines: 2, Changes: []string{"size"}}}, pending.Pools)
	in.Cluster.Spec.RKEConfig.MachinePools[2].Quantity = new(int32(5))
	_, used = render(provv1.ReplaceOnApproval, "")
	require.Equal(t, before, used, "further machines are as the others")
	in.Cluster.Spec.RKEConfig.MachinePools[2].Quantity = new(int32(2))

	id := pending.ID
	pending, used = render(provv1.ReplaceNever, id)
	require.NotNil(t, pending, "Never takes no approval")
	require.Equal(t, before, used)
	pending, used = render(provv1.ReplaceOnApproval, id)
	require.Nil(t, pending)
	require.NotEqual(t, before, used)
	pending, used = render("", "")
	require.Nil(t, pending)
	require.NotEqual(t, before, used)

	resize("s-4vcpu-16gb")
	pending, used = render(provv1.ReplaceOnApproval, id)
	require.Equal(t, before, used, "another change needs another approval")
	require.NotEqual(t, id, pending.ID)
	resize("s-4vcpu-8gb")
	pending, _ = render(provv1.ReplaceOnApproval, "")
	require.Nil(t, pending, "the change was taken back")
}

// TestPreview: the effects are the ones of the rendered objects.
func TestPreview(t *testing.T) {
	text := func(in provisioning.Input) []string {
		effects, _, err := provisioning.Preview(in)
		require.NoError(t, err)
		var lines []string
		for _, effect := range effects {
			lines = append(lines, effect.String())
		}
		return lines
	}
	require.Equal(t, []string{"pool server: 1 machine is created", "pool workers: 2 machines are created", "pool scaled: 1 machine is created"}, text(load(t, "testdata/workers.yaml")))
	in := made(t, load(t, "testdata/workers.yaml"))
	require.Empty(t, text(in))
	in.Cluster.Spec.RKEConfig.MachinePools[2].Quantity = new(int32(5))
	require.Equal(t, []string{"pool workers: 3 machines are created"}, text(in))
	config := in.Pools["workers"].Config
	config.Object["size"], config.Object["image"] = "s-8vcpu-16gb", "debian-12-x64"
	config.SetGeneration(9)
	in.Cluster.Spec.RKEConfig.MachinePools[2].Quantity = new(int32(1))
	require.Equal(t, []string{"pool workers: 1 machine is replaced when the pool is no longer paused, because of: image, size; 1 machine is deleted"}, text(in))
	in.Cluster.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval
	require.Equal(t, []string{"pool workers: 1 machine is replaced after your approval, because of: image, size; 1 machine is deleted"}, text(in))
	in.Cluster.Spec.RKEConfig.MachinePools = in.Cluster.Spec.RKEConfig.MachinePools[:1]
	require.Equal(t, []string{"pool workers: 2 machines are deleted"}, text(in))
}

// TestPreview_renamed: a pool with another name is another pool. The server's pool stays.
func TestPreview_renamed(t *testing.T) {
	for pool, want := range map[int][]string{
		0: {"PoolHoldsEtcd: pool server", "TierUnsupported: pool renamed"},
		2: {"pool renamed: 2 machines are created", "pool workers: 2 machines are deleted"},
	} {
		in := made(t, load(t, "testdata/workers.yaml"))
		renamed := &in.Cluster.Spec.RKEConfig.MachinePools[pool]
		in.Pools["renamed"] = provisioning.PoolInput{Config: in.Pools[renamed.Name].Config}
		renamed.Name = "renamed"
		effects, out, err := provisioning.Preview(in)
		require.NoError(t, err)
		var said []string
		for _, effect := range effects {
			said = append(said, effect.String())
		}
		for _, finding := range out.Findings {
			if finding.Pool == "renamed" || finding.Pool == "server" && finding.Reason == provv1.PoolHoldsEtcdReason {
				said = append(said, finding.Reason+": pool "+finding.Pool)
			}
		}
		slices.Sort(said)
		require.Equal(t, want, said)
	}
}

// TestRender_host: a machine on a host is deleted before another takes the host.
func TestRender_host(t *testing.T) {
	in := load(t, "testdata/workers.yaml")
	in.Pools["workers"].Config.SetKind("GenericConfig")
	for _, strategy := range []*provv1.RollingUpdate{nil, {MaxSurge: new(intstr.FromInt32(2)), MaxUnavailable: new(intstr.FromString("0"))}} {
		pool := &in.Cluster.Spec.RKEConfig.MachinePools[2]
		pool.MachineConfigRef.Kind, pool.RollingUpdate = "GenericConfig", strategy
		out, err := provisioning.Render(in)
		require.NoError(t, err)
		found := false
		for _, obj := range out.Objects {
			if deployment, ok := obj.(*clusterv1.MachineDeployment); ok && deployment.Name == "one-workers" {
				found = true
				update := deployment.Spec.Rollout.Strategy.RollingUpdate
				require.Equal(t, "0 1", update.MaxSurge.String()+" "+update.MaxUnavailable.String())
			}
		}
		require.True(t, found)
		require.Equal(t, strategy != nil, slices.Contains(provisioning.NotActedOn(in.Cluster), "rkeConfig.machinePools[workers].rollingUpdate"))
	}
}

func TestName(t *testing.T) {
	require.Equal(t, "one-server", provisioning.Name("one", "server"))
	long := strings.Repeat("a", 40)
	require.Equal(t, strings.Repeat("a", 40)+"-"+strings.Repeat("b", 16)+"-"+provisioning.Name(long, strings.Repeat("b", 40))[58:], provisioning.Name(long, strings.Repeat("b", 40)))
	require.Len(t, provisioning.Name(long, strings.Repeat("b", 40)), 63)
	// The 57th character is a dash, so the name is cut before it.
	cut := provisioning.Name(strings.Repeat("a", 56), strings.Repeat("b", 40))
	require.Len(t, cut, 63)
	require.Equal(t, strings.Repeat("a", 56)+"-", cut[:57])
	require.NotEqual(t, provisioning.Name(long, strings.Repeat("b", 40)), provisioning.Name(long, strings.Repeat("b", 41)))
}

func TestNotActedOn(t *testing.T) {
	in := load(t, "testdata/workers.yaml")
	require.Empty(t, provisioning.NotActedOn(in.Cluster))
	in.Cluster.Spec.ClusterAPIConfig = &provv1.ClusterAPIConfig{}
	in.Cluster.Spec.LocalClusterAuthEndpoint.Enabled = true
	in.Cluster.Spec.RKEConfig.RotateCertificates = &rkev1.RotateCertificates{}
	in.Cluster.Spec.RKEConfig.UpgradeStrategy.WorkerDrainOptions.Enabled = true
	in.Cluster.Spec.RKEConfig.ChartValues = rkev1.Config{"rke2-calico": {}}
	in.Cluster.Spec.RKEConfig.MachinePools[1].DisplayName = "More"
	require.Equal(t, []string{"clusterAPIConfig", "localClusterAuthEndpoint", "rkeConfig.rotateCertificates", "rkeConfig.upgradeStrategy.workerDrainOptions", "rkeConfig.machinePools[more].displayName"}, provisioning.NotActedOn(in.Cluster))
}
