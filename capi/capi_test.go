package capi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/access"
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
		require.NotEqual(t, "ExtensionConfig", crd.Spec.Names.Kind, "runtime extensions, by which an object has the manager call any address, are off")
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

// clusterAPI is where the module is.
func clusterAPI(t *testing.T) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(dir))
}

// The table of webhooks is ours, what is served is Cluster API's: its markers say which there are.
func TestWebhooks_agreeWithClusterAPI(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(clusterAPI(t), "core", "webhooks", "admission", "*.go"))
	require.NoError(t, err)
	marker := regexp.MustCompile(`// \+kubebuilder:webhook:verbs=([a-z;]+),path=(\S+?),mutating=(true|false).*,groups=([a-z0-9.-]+),resources=([a-z]+),`)
	want := map[string]string{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range marker.FindAllStringSubmatch(string(source), -1) {
			if !strings.HasPrefix(match[4], "ipam.") && !strings.HasPrefix(match[4], "runtime.") && match[5] != "clusterclasses" {
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

func TestParseMode_takesThreeWords(t *testing.T) {
	for _, word := range []string{"auto", "embedded", "external"} {
		mode, err := capi.ParseMode(word)
		require.NoError(t, err)
		require.Equal(t, word, string(mode))
	}
	for _, word := range []string{"", "Auto", " auto", "none", "embedded,external"} {
		_, err := capi.ParseMode(word)
		require.EqualError(t, err, "invalid value "+word+" for --capi: must be auto, embedded or external")
	}
}

// A server that does not answer decides nothing: to embed beside another core would be worse than not to start.
func TestResolve_doesNotGuess(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	refuses := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("forbidden")
		}}).Build()
	for _, mode := range []capi.Mode{capi.Auto, capi.Embedded, capi.External} {
		_, err := capi.Resolve(t.Context(), refuses, mode)
		require.EqualError(t, err, "reading CRD clusters.cluster.x-k8s.io: forbidden")
	}
}

// What `clusterctl init` writes over our CRDs ends a manager that embeds Cluster API; started again it does not embed.
func TestHandover(t *testing.T) {
	config := testkit.Fresh(t)
	c, err := client.NewWithWatch(config, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	crds, err := capi.CRDs()
	require.NoError(t, err)
	names := make([]string, 0, len(crds))
	for _, crd := range crds {
		require.NoError(t, c.Create(t.Context(), crd))
		names = append(names, crd.Name)
	}
	require.NoError(t, apply.AwaitEstablished(t.Context(), c, names...))
	found, err := capi.Installed(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, found.Missing)
	require.Empty(t, found.Foreign, "they are labelled as ours")
	mode, err := capi.Resolve(t.Context(), c, capi.Auto)
	require.NoError(t, err)
	require.Equal(t, capi.Embedded, mode, "a second start embeds again")
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: newScheme(t), NewCache: capi.NewCache, Client: capi.ClientOptions(),
		Controller: controllers, Metrics: server.Options{BindAddress: "0"}, GracefulShutdownTimeout: new(5 * time.Second),
		LeaderElection: true, LeaderElectionID: "held-by-another", LeaderElectionNamespace: metav1.NamespaceDefault})
	require.NoError(t, err)
	live := capi.Handover(mgr.GetCache(), mgr.GetAPIReader())
	require.NoError(t, mgr.Add(live))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	require.True(t, mgr.GetCache().WaitForCacheSync(t.Context()))

	patch := func(name, body string) {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, c.Patch(t.Context(), crd, client.RawPatch("application/merge-patch+json", []byte(body))))
	}
	patch("clusters.cluster.x-k8s.io", `{"metadata":{"annotations":{"a":"b"}}}`) // means nothing
	patch("machines.cluster.x-k8s.io", `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],`+
		`"clientConfig":{"service":{"namespace":"capi-system","name":"capi-webhook-service"}}}}}}`)
	require.ErrorContains(t, <-ended, "another Cluster API is being installed (machines.cluster.x-k8s.io)")
	mode, err = capi.Resolve(t.Context(), c, capi.Auto)
	require.NoError(t, err)
	require.Equal(t, capi.External, mode)
}

// The policy for an upstream Cluster API rejects a Cluster of another namespace's class.
func TestExamplePolicy(t *testing.T) {
	content, err := os.ReadFile("../examples/clusterclass-namespaces.yaml")
	require.NoError(t, err)
	c := testkit.Client(t, newScheme(t))
	for documents := yamlstream.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := documents.Decode(obj)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, c.Create(t.Context(), obj))
		t.Cleanup(func() { require.NoError(t, c.Delete(testContext(t), obj)) })
	}
	namespace := testkit.Namespace(t)
	try := func(class string) error {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}}
		cluster.Spec.Topology = clusterv1.Topology{Version: "v1.34.0", ClassRef: clusterv1.ClusterClassRef{Namespace: class, Name: "class"}}
		return c.Create(t.Context(), cluster, client.DryRunAll)
	}
	testkit.Eventually(t, patience, func() error {
		if try("victim") == nil {
			return errors.New("the policy is not in force")
		}
		return nil
	})
	require.ErrorContains(t, try("victim"), "ClusterClasses of its own namespace")
	for _, allowed := range []string{"", namespace} {
		require.NoError(t, try(allowed), fmt.Sprintf("class in %q", allowed))
	}
}

// notEmbedded are the groups and resources of Cluster API's own role that our embedded core does not need, and why.
var notEmbedded = map[string]string{
	"ipam.cluster.x-k8s.io":                                 "nothing of ours gives addresses out, and its CRDs are not installed",
	"runtime.cluster.x-k8s.io":                              "runtime extensions are off, and their CRD is not installed",
	"clusterclasses.cluster.x-k8s.io":                       "the embedded core serves no ClusterClasses",
	"clusterclasses/status.cluster.x-k8s.io":                "the same",
	"customresourcedefinitions.apiextensions.k8s.io":        "the migrator of stored versions does not run: our CRDs have one version",
	"customresourcedefinitions/status.apiextensions.k8s.io": "the same",
}

// TestRules: what the embedded core may do is what Cluster API's own manager may do, of the version in go.mod.
func TestRules(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(clusterAPI(t), "core", "config", "rbac", "role.yaml"))
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	require.NoError(t, yaml.UnmarshalStrict(content, &role))
	got := access.Compare(access.Grants(access.Markers(t, ".")), access.Grants(role.Rules))
	require.Empty(t, got.Unused, "granted, and Cluster API does not ask for it")
	seen := map[string]bool{}
	for _, line := range got.Missing {
		key := strings.Fields(line)[1] // a line is such as "get pods.group name"
		if _, group, _ := strings.Cut(key, "."); notEmbedded[group] != "" {
			key = group
		}
		require.Contains(t, notEmbedded, key, "Cluster API asks for it, and it is not granted: %s", line)
		seen[key] = true
	}
	require.Len(t, seen, len(notEmbedded), "notEmbedded has entries that Cluster API does not ask for")
}
