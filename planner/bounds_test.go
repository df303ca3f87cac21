package planner

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// nestedLists is JSON of about so many bytes, of empty lists in 30 levels.
func nestedLists(size int) apiextensionsv1.JSON {
	list := strings.Repeat("[", 30) + strings.Repeat("]", 30)
	return apiextensionsv1.JSON{Raw: []byte("[" + strings.Repeat(list+",", size/61) + "[]]")}
}

// Every field that a user fills freely is bounded in bytes, elements and levels.
func TestCheckBounds(t *testing.T) {
	spec := func(change func(*rkev1.RKEControlPlaneSpec)) (s rkev1.RKEControlPlaneSpec) {
		change(&s)
		return s
	}
	long := strings.Repeat("x", 600<<10)
	config := func(value string) rkev1.Config {
		return rkev1.Config{"a": apiextensionsv1.JSON{Raw: []byte(value)}}
	}
	deep := config(strings.Repeat("[", 33) + strings.Repeat("]", 33))
	for _, tt := range []struct {
		says string
		spec rkev1.RKEControlPlaneSpec
	}{
		{"", rkev1.RKEControlPlaneSpec{}},
		{"", spec(func(s *rkev1.RKEControlPlaneSpec) { s.UpgradeStrategy.WorkerDrainOptions.IgnoreDaemonSets = new(false) })},
		{"spec.machineGlobalConfig has more than 8192 elements", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineGlobalConfig = rkev1.Config{"tls-san": nestedLists(1_300_000)}
		})},
		{"spec.machineGlobalConfig is more than 32 levels deep", spec(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig = deep })},
		{"", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineGlobalConfig = config(`["` + strings.Repeat(`[{\"`, 9000) + `"]`)
		})},
		{"spec.machineGlobalConfig has 614403 bytes, more than 262144", spec(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig = config(`"` + long + `"`) })},
		{"spec.machineSelectorConfig is more than 32 levels deep", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineSelectorConfig = []rkev1.RKESystemConfig{{}, {Config: deep}}
		})},
		{"spec.machineSelectorConfig has more than 8192 elements", spec(func(s *rkev1.RKEControlPlaneSpec) { s.MachineSelectorConfig = make([]rkev1.RKESystemConfig, 9000) })},
		{"spec.chartValues has more than 16384 elements", spec(func(s *rkev1.RKEControlPlaneSpec) { s.ChartValues = rkev1.Config{"a": nestedLists(1_300_000)} })},
		{"spec.machineSelectorFiles has more than 16384 elements", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: make([]rkev1.ProvisioningFileSource, 17000)}}
		})},
		{"spec.additionalManifest has 614400 bytes", spec(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = long })},
		{"spec.registries has 614400 bytes", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{"": {CABundle: []byte(long)}}}
		})},
		{"spec.registries has more than 8192 elements", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.Registries = &rkev1.Registry{Mirrors: map[string]rkev1.Mirror{"": {Endpoints: make([]string, 9000)}}}
		})},
		{"spec.agentEnvVars has more than 2048 elements", spec(func(s *rkev1.RKEControlPlaneSpec) { s.AgentEnvVars = make([]rkev1.EnvVar, 3000) })},
		{"spec.agentEnvVars has 614400 bytes", spec(func(s *rkev1.RKEControlPlaneSpec) { s.AgentEnvVars = []rkev1.EnvVar{{Value: long}} })},
		{"spec.etcd has 614400 bytes", spec(func(s *rkev1.RKEControlPlaneSpec) { s.ETCD = &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{EndpointCA: long}} })},
		{"spec.localClusterAuthEndpoint has 614400 bytes", spec(func(s *rkev1.RKEControlPlaneSpec) { s.LocalClusterAuthEndpoint.CACerts = long })},
		{"spec.upgradeStrategy has more than 1024 elements", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.UpgradeStrategy.WorkerDrainOptions.PreDrainHooks = make([]rkev1.DrainHook, 2000)
		})},
		{"spec.rotateCertificates has more than 1024 elements", spec(func(s *rkev1.RKEControlPlaneSpec) {
			s.RotateCertificates = &rkev1.RotateCertificates{Services: make([]string, 2000)}
		})},
		{"spec.clusterName has 614400 bytes, more than 65536", spec(func(s *rkev1.RKEControlPlaneSpec) { s.ClusterName = long })},
	} {
		err := checkBounds(&tt.spec)
		if tt.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, tt.says)
		require.NotContains(t, err.Error(), "xxx", "a value may be a secret")
	}
}

// The specification of the issue became a plan of 40 MB, and 583 MB were allocated for each machine.
func TestCheckBounds_cost(t *testing.T) {
	c := Cluster{Name: "prod", InfrastructureProvisioned: true}
	c.Spec.KubernetesVersion = "v1.34.1+k3s1"
	c.Spec.MachineGlobalConfig = rkev1.Config{"tls-san": nestedLists(1_300_000)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := Plan(c)
	runtime.ReadMemStats(&after)
	require.Equal(t, rkev1.ConfigInvalidReason, r.Reason)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// The largest specification that is within the bounds is encoded within the bound of a plan, or is
// rejected after a bounded amount of work.
func TestCheckBounds_largest(t *testing.T) {
	p := &planner{Cluster: Cluster{}}
	p.Spec.MachineGlobalConfig = rkev1.Config{"tls-san": nestedLists(16 << 10)}
	require.Nil(t, p.bounded())
	value, given := p.layers[0].value("tls-san")
	require.True(t, given)
	text, err := encode(value)
	require.NoError(t, err)
	require.Less(t, len(text), maxPlanBytes)
}

// Each row of the table of bounds names a field, and the page of the kind has the same rows.
func TestBounds_documented(t *testing.T) {
	page, err := os.ReadFile("../docs/kinds/rkecontrolplane.md")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, field := range fieldsOf(reflect.ValueOf(rkev1.RKEControlPlaneSpec{})) {
		known[field.name] = true
	}
	for _, b := range bounds {
		name := "`spec." + b.field + "`"
		if b.field == "" {
			name = "each other field"
		} else {
			require.True(t, known[b.field], b.field)
		}
		row := fmt.Sprintf("| %s | %d KiB | %d |\n", name, b.bytes>>10, b.elements)
		require.True(t, strings.Contains(string(page), row), "the page lacks %s", row)
	}
}

// One Secret that a hundred registries name is not copied a hundred times.
func TestRegistryFiles_oneSecretManyTimes(t *testing.T) {
	p := &planner{release: &releases.Release{Distribution: releases.K3s}, Cluster: Cluster{Objects: map[ObjectKey]Object{{SecretKind, "login"}: {Type: string(corev1.SecretTypeBasicAuth),
		Data: map[string][]byte{corev1.BasicAuthUsernameKey: []byte("u"), corev1.BasicAuthPasswordKey: []byte(strings.Repeat("x", 1<<20))}}}}}
	p.Spec.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{}}
	for i := range 100 {
		p.Spec.Registries.Configs[fmt.Sprintf("registry-%d.example.com", i)] = rkev1.RegistryConfig{AuthConfigSecretName: "login"}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := p.registryFiles()
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "spec.registries.configs have more than 655360 bytes")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
}

// What measure counts is what a decoder finds.
func FuzzMeasure(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\"]",null,{}]}`, `[[[]]]`, `"`, `{"a" : -1.5e3 , "b":true}`, `[1e999,2]`, `[}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := measure(raw, 1<<20, 1<<20)
		require.NoError(t, err)
		if !json.Valid(raw) {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		decoder.UseNumber() // 1e999 is valid JSON and no float64
		want := 0
		for {
			token, err := decoder.Token()
			if err != nil {
				break
			}
			if token != json.Delim(']') && token != json.Delim('}') {
				want++
			}
		}
		require.Equal(t, want, got)
	})
}
