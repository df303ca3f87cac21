package capi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/capi"
)

func TestCRDs_v1beta2Only(t *testing.T) {
	crds, err := capi.CRDs()
	require.NoError(t, err)
	require.NotEmpty(t, crds)
	for _, crd := range crds {
		require.Len(t, crd.Spec.Versions, 1, crd.Name)
		require.Equal(t, "v1beta2", crd.Spec.Versions[0].Name)
		require.True(t, crd.Spec.Versions[0].Storage && crd.Spec.Versions[0].Served)
		require.Nil(t, crd.Spec.Conversion)
		require.Equal(t, capi.InstalledByValue, crd.Labels[capi.InstalledByLabel])
		require.Contains(t, crd.Labels, "clusterctl.cluster.x-k8s.io")
	}
}

func crd(name string, ours bool) client.Object {
	obj := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ours {
		obj.Labels = map[string]string{capi.InstalledByLabel: capi.InstalledByValue}
	}
	return obj
}

func TestResolve(t *testing.T) {
	all := []string{"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machinesets.cluster.x-k8s.io", "machinedeployments.cluster.x-k8s.io"}
	install := func(ours bool, names ...string) (objs []client.Object) {
		for _, name := range names {
			objs = append(objs, crd(name, ours))
		}
		return objs
	}
	takenOver := func() (objs []client.Object) {
		for i, obj := range install(true, all...) {
			definition := obj.(*apiextensionsv1.CustomResourceDefinition)
			if i == 0 {
				definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
			}
			definition.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1"}, {Name: "v1beta2"}}
			objs = append(objs, definition)
		}
		return objs
	}
	for name, tt := range map[string]struct {
		there []client.Object
		asked capi.Mode
		want  capi.Mode
		err   string
	}{
		"clusterctl init after ours":     {asked: capi.Auto, there: takenOver(), want: capi.External},
		"clusterctl init, and embedded":  {asked: capi.Embedded, there: takenOver(), err: "--capi=external"},
		"nothing there":                  {asked: capi.Auto, want: capi.Embedded},
		"ours from an earlier start":     {asked: capi.Auto, there: install(true, all...), want: capi.Embedded},
		"somebody else's":                {asked: capi.Auto, there: install(false, all...), want: capi.External},
		"somebody else's, half":          {asked: capi.Auto, there: install(false, all[0]), err: "machines.cluster.x-k8s.io"},
		"embedded beside somebody else":  {asked: capi.Embedded, there: install(false, all...), err: "--capi=external"},
		"embedded":                       {asked: capi.Embedded, want: capi.Embedded},
		"external without":               {asked: capi.External, err: "clusterctl init"},
		"external beside somebody else":  {asked: capi.External, there: install(false, all...), want: capi.External},
		"external after we installed it": {asked: capi.External, there: install(true, all...), want: capi.External},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, apiextensionsv1.AddToScheme(scheme))
			got, err := capi.Resolve(t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.there...).Build(), tt.asked)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestParseMode(t *testing.T) {
	_, err := capi.ParseMode("sometimes")
	require.ErrorContains(t, err, "auto, embedded, external")
}

// The table of webhooks is ours, what is served is Cluster API's: its markers say which there are.
func TestWebhooks_agreeWithClusterAPI(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "core", "webhooks", "admission", "*.go"))
	require.NoError(t, err)
	marker := regexp.MustCompile(`// \+kubebuilder:webhook:verbs=([a-z;]+),path=(\S+?),mutating=(true|false).*,groups=([a-z0-9.-]+),resources=([a-z]+),`)
	want := map[string]string{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range marker.FindAllStringSubmatch(string(source), -1) {
			if !strings.HasPrefix(match[4], "ipam.") {
				want[match[2]] = strings.Join([]string{match[1], match[3], match[4], match[5]}, " ")
			}
		}
	}
	require.NotEmpty(t, want)
	got := map[string]string{}
	require.Equal(t, "/guard-cluster-api", capi.Webhooks()[0].Path, "ours is asked before Cluster API's")
	for _, hook := range capi.Webhooks()[1:] {
		var verbs []string
		for _, operation := range hook.Rule.Operations {
			verbs = append(verbs, strings.ToLower(string(operation)))
		}
		mutating := "false"
		if hook.Mutating {
			mutating = "true"
		}
		got[hook.Path] = strings.Join([]string{strings.Join(verbs, ";"), mutating, hook.Rule.APIGroups[0], hook.Rule.Resources[0]}, " ")
	}
	require.Equal(t, want, got)
}
