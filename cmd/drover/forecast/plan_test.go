package forecast_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/forecast"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/releases"
	"github.com/drover-project/drover/testkit/golden"
)

const stored = `
metadata: {name: shop, namespace: default}
spec:
  kubernetesVersion: v1.36.3+k3s1
  rkeConfig:
    machineGlobalConfig: {kubelet-arg: [max-pods=110]}
    machinePools:
    - {name: pool1, etcdRole: true, controlPlaneRole: true, machineConfigRef: {kind: AcmeConfig, name: server}}
    - {name: web, quantity: 3, workerRole: true, machineConfigRef: {kind: AcmeConfig, name: web}}
    - {name: old, workerRole: true, machineConfigRef: {kind: AcmeConfig, name: web}}
`

// world is a cluster that runs.
type world struct {
	t       *testing.T
	sources forecast.Sources
}

func newWorld(t *testing.T) *world {
	t.Helper()
	catalogue, err := releases.Default()
	require.NoError(t, err)
	before := decode(t, stored)
	fields := map[string]crdgen.Field{"size": {Name: "size"}, "token": {Name: "token", Secret: true}}
	in := provisioning.Input{Cluster: before, Pools: map[string]provisioning.PoolInput{}}
	for _, pool := range before.Spec.RKEConfig.MachinePools {
		in.Pools[pool.Name] = provisioning.PoolInput{Config: config(pool.MachineConfigRef.Name, "size: s-1\ntoken: canary"), Fields: fields}
	}
	rendered, err := provisioning.Render(in)
	require.NoError(t, err)
	w := &world{t: t, sources: forecast.Sources{Stored: before, CAPI: rendered.Cluster, ControlPlane: provisioning.ControlPlane(before), Releases: catalogue,
		Admission: forecast.Admission{Checked: true}, Input: in}}
	templates := map[string]*unstructured.Unstructured{}
	for _, object := range rendered.Objects {
		switch object := object.(type) {
		case *unstructured.Unstructured:
			templates[object.GetName()] = object
		case *clusterv1.MachineDeployment:
			name := object.Labels[rkev1.MachinePoolLabel]
			pool := in.Pools[name]
			pool.Deployment, pool.Template = object, templates[object.Spec.Template.Spec.InfrastructureRef.Name]
			in.Pools[name] = pool
			for i := range *object.Spec.Replicas {
				w.sources.Machines = append(w.sources.Machines, clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: object.Name + "-" + string('a'+i), Labels: object.Spec.Template.Labels}})
			}
		}
	}
	return w
}

func decode(t *testing.T, text string) *provv1.Cluster {
	t.Helper()
	cluster := &provv1.Cluster{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), cluster))
	return cluster
}

func config(name, options string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(options), &object.Object); err != nil {
		panic(err)
	}
	object.SetAPIVersion(rkev1.MachineConfigGroupVersion.String())
	object.SetKind("AcmeConfig")
	object.SetName(name)
	object.SetNamespace("default")
	return object
}

// TestPlan shows plans as people read them.
func TestPlan(t *testing.T) {
	replace := func(pairs ...string) func(*world) {
		return func(w *world) {
			w.sources.Input.Cluster = decode(w.t, strings.NewReplacer(pairs...).Replace(stored))
			for _, pool := range w.sources.Input.Cluster.Spec.RKEConfig.MachinePools {
				if _, has := w.sources.Input.Pools[pool.Name]; !has {
					w.sources.Input.Pools[pool.Name] = provisioning.PoolInput{Config: config(pool.MachineConfigRef.Name, "size: s-1")}
				}
			}
		}
	}
	size := func(pool, options string) func(*world) {
		return func(w *world) {
			in := w.sources.Input.Pools[pool]
			in.Config = config(in.Config.GetName(), options)
			w.sources.Input.Pools[pool] = in
		}
	}
	for name, tt := range map[string]struct {
		changes []func(*world)
		change  string
	}{
		"nothing":        {nil, forecast.None},
		"configuration":  {[]func(*world){replace("max-pods=110", "max-pods=220", "    machinePools:", "    additionalManifest: 'kind: Namespace'\n    upgradeStrategy: {workerConcurrency: '2'}\n    machinePools:")}, forecast.InPlace},
		"sizes":          {[]func(*world){replace("quantity: 3", "quantity: 5", "name: old", "name: young")}, forecast.Replace},
		"replaced":       {[]func(*world){size("web", "size: s-2\ntoken: canary-2")}, forecast.Replace},
		"approval":       {[]func(*world){replace("    machinePools:", "    machineReplacement: OnApproval\n    machinePools:"), size("web", "size: s-2\ntoken: canary-2")}, forecast.InPlace},
		"paused-pool":    {[]func(*world){replace("name: web, quantity", "paused: true, name: web, quantity"), size("web", "size: s-2\ntoken: canary-2")}, forecast.InPlace},
		"in-place":       {[]func(*world){replace("name: web, quantity", "labels: {tier: web}, hostnameLengthLimit: 20, drainBeforeDelete: true, name: web, quantity")}, forecast.InPlace},
		"etcd-held":      {[]func(*world){size("pool1", "size: s-2")}, forecast.None},
		"not-acted-on":   {[]func(*world){replace("    machinePools:", "    rotateCertificates: {generation: 1}\n    machinePools:")}, forecast.None},
		"unknown":        {[]func(*world){replace("v1.36.3", "v1.99.3")}, forecast.InPlace},
		"imported":       {[]func(*world){func(w *world) { w.sources.Input.Cluster.Spec.RKEConfig = nil }}, forecast.None},
		"rejected":       {[]func(*world){func(w *world) { w.sources.Admission.Rejected = "spec.rkeConfig.machinePools[web]: no" }}, forecast.None},
		"not-checked":    {[]func(*world){func(w *world) { w.sources.Admission = forecast.Admission{NotChecked: "you may not update the Cluster"} }}, forecast.None},
		"paused-cluster": {[]func(*world){replace("metadata: {", "metadata: {annotations: {cluster.x-k8s.io/paused: ''}, ", "quantity: 3", "quantity: 4")}, forecast.InPlace},
		"created": {[]func(*world){func(w *world) {
			w.sources.Stored, w.sources.CAPI, w.sources.ControlPlane, w.sources.Machines = nil, nil, nil, nil
			for name, pool := range w.sources.Input.Pools {
				pool.Deployment, pool.Template = nil, nil
				w.sources.Input.Pools[name] = pool
			}
		}}, forecast.InPlace},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, change := range tt.changes {
				change(w)
			}
			plan, err := forecast.New(w.sources)
			require.NoError(t, err)
			require.Equal(t, tt.change, plan.Change)
			var out strings.Builder
			require.NoError(t, forecast.Render(&out, plan, "drover"))
			require.NotContains(t, out.String(), "canary")
			golden.Require(t, "testdata/"+name+".txt", out.String())
		})
	}
}
