package admission_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/endpoint/servingcert"
	"github.com/drover-project/drover/releases"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/golden"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// enforce has the API server keep to our policies, and to what more is configured, until the test ends.
func enforce(t *testing.T, c client.Client, more ...client.Object) {
	t.Helper()
	installed := append(admission.Policies(nil), more...)
	_, err := apply.Applier{Client: c, Reader: c, Owner: "drover-manager"}.All(t.Context(), installed...)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, obj := range installed {
			_ = c.Delete(context.Background(), obj)
		}
	})
}

// awaitRefusal tries until the API server, which learns of webhooks and policies by watch, refuses.
func awaitRefusal(t *testing.T, try func() error) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if try() == nil {
			return errors.New("not refused yet")
		}
		return nil
	})
}

// withTokenOf is what the pods of a ServiceAccount have.
func withTokenOf(t *testing.T, c client.Client, account *corev1.ServiceAccount) client.Client {
	t.Helper()
	token := &authenticationv1.TokenRequest{}
	require.NoError(t, c.SubResource("token").Create(t.Context(), account, token))
	config := rest.AnonymousClientConfig(testkit.Config(t))
	config.BearerToken = token.Status.Token
	out, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return out
}

// managerName is how the API server calls the manager; the quote is to see that it does not end the expression.
const managerName = "system:serviceaccount:drover-system:o'manager"

// warnings are what kubectl would print above its answer.
type warnings struct {
	mutex sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.texts = append(w.texts, text)
}

// cluster is a real API server with our kinds, policies and webhooks.
type cluster struct {
	client.WithWatch

	warned *warnings
	config *rest.Config
	stop   func()
}

func (c *cluster) as(t *testing.T, username string) client.Client {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: username, Groups: []string{"system:masters"}}
	out, err := client.New(config, client.Options{Scheme: c.Scheme()})
	require.NoError(t, err)
	return out
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	crds, err := charts.CRDs()
	require.NoError(t, err)
	for _, driver := range []string{"acme", "idle", "orphan"} {
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: driver, Fields: []crdgen.Field{{Name: "size", Flag: driver + "-size", Type: crdgen.String},
			{Name: "region", Flag: driver + "-region", Type: crdgen.String}, {Name: "accessToken", Flag: driver + "-access-token", Type: crdgen.String}}})
		require.NoError(t, err)
		crds = append(crds, config, template, machine)
	}
	testkit.ApplyCRDs(t, crds...)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v3.AddToScheme, rkev1.AddToScheme, clusterv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	c := &cluster{warned: &warnings{}, config: testkit.Config(t)}
	c.config.WarningHandler = c.warned
	c.WithWatch, err = client.NewWithWatch(c.config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	c.serve(t)
	return c
}

// serve answers the API server's webhooks over TLS, and configures it to ask, until it does.
func (c *cluster) serve(t *testing.T) {
	t.Helper()
	certs, err := servingcert.Load(t.Context(), servingcert.Options{Client: c, Names: []string{"127.0.0.1"},
		Secret: client.ObjectKey{Namespace: testkit.Namespace(t), Name: "cert"}})
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: certs.GetCertificate, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle(admission.MachineKindsPath, &webhook.Webhook{Handler: &admission.MachineKinds{Cached: c, Live: c}})
	mux.Handle(admission.ControlPlanesPath, &webhook.Webhook{Handler: &admission.ControlPlanes{Reader: c}})
	mux.Handle(admission.ControlPlaneSpecsPath, &webhook.Webhook{Handler: &admission.ControlPlaneSpecs{}})
	mux.Handle(admission.ControlPlaneWarningsPath, &webhook.Webhook{Handler: &admission.ControlPlaneWarnings{
		Catalogue: func(context.Context) (*releases.Catalogue, string, error) {
			catalogue, err := releases.Default()
			return catalogue, "", err
		}}})
	mux.Handle(admission.PoolsPath, &webhook.Webhook{Handler: &admission.Pools{Reader: c}})
	mux.Handle(admission.NodeDriversPath, &webhook.Webhook{Handler: &admission.NodeDrivers{}})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	c.stop = func() { _ = server.Close(); serving.Wait() }
	t.Cleanup(c.stop)

	validating, mutating := admission.Configuration(admission.Target{URL: "https://" + listener.Addr().(*net.TCPAddr).String(),
		CABundle: certs.CABundle(), Username: managerName})
	require.Nil(t, mutating)
	enforce(t, c, validating)
	bad := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v3.NodeDriverSpec{URL: "https:///x"}}
	awaitRefusal(t, func() error { return c.Create(t.Context(), bad.DeepCopy(), client.DryRunAll) })
	template := kindOf(t, "AcmeMachineTemplate", testkit.Namespace(t), "probe", "spec: {template: {spec: {size: s}}}")
	require.NoError(t, c.as(t, managerName).Create(t.Context(), template))
	require.NoError(t, unstructured.SetNestedField(template.Object, "l", "spec", "template", "spec", "size"))
	awaitRefusal(t, func() error {
		err = c.as(t, managerName).Update(t.Context(), template.DeepCopy(), client.DryRunAll)
		return err
	})
	require.ErrorContains(t, err, "the spec of a template is immutable")
}

// kindOf reads an object in YAML.
func kindOf(t *testing.T, kind, namespace, name, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
	if obj.Object == nil {
		obj.Object = map[string]any{}
	}
	switch {
	case kind == "NodeDriver":
		obj.SetAPIVersion("management.cattle.io/v3")
	case strings.HasPrefix(kind, "RKE"):
		obj.SetAPIVersion("rke.cattle.io/v1")
	case strings.HasSuffix(kind, "Config"):
		obj.SetAPIVersion(crdgen.ConfigGroup + "/v1")
	default:
		obj.SetAPIVersion(crdgen.MachineGroup + "/v1")
	}
	obj.SetKind(kind)
	obj.SetName(name)
	if kind != "NodeDriver" {
		obj.SetNamespace(namespace)
	}
	return obj
}

// told is the API server's answer with its warnings, in words that do not depend on the run.
func (c *cluster) told(err error, replace ...string) string {
	c.warned.mutex.Lock()
	defer c.warned.mutex.Unlock()
	var out strings.Builder
	for _, text := range c.warned.texts {
		fmt.Fprintf(&out, "  warning: %s\n", text)
	}
	c.warned.texts = nil
	if err != nil {
		fmt.Fprintf(&out, "  refused: %s\n", err)
	} else {
		fmt.Fprintln(&out, "  taken")
	}
	return strings.NewReplacer(replace...).Replace(out.String())
}

type attempt struct{ name, kind, text string }

// attempts are objects users make, in a namespace with the Secret "here"; another namespace shares one Secret and keeps one.
func attempts() []attempt {
	credential := func(kind, name string) string {
		if strings.HasSuffix(kind, "Template") {
			return "spec: {template: {spec: {common: {cloudCredentialSecretName: '" + name + "'}}}}"
		}
		return "spec: {common: {cloudCredentialSecretName: '" + name + "'}}"
	}
	const checksum = "checksum: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	out := []attempt{
		{"a machine without a credential", "AcmeMachine", "spec: {size: s}"},
		{"a config", "AcmeConfig", "size: s"},
		{"a machine of an inactive driver", "IdleMachine", "spec: {}"},
		{"a template of an inactive driver", "IdleMachineTemplate", "spec: {template: {}}"},
		{"a config of an inactive driver", "IdleConfig", "size: s"},
		{"a machine of nobody's driver", "OrphanMachine", "spec: {}"},
		{"a template of nobody's driver", "OrphanMachineTemplate", "spec: {template: {}}"},
		{"a config of nobody's driver", "OrphanConfig", "{}"},
		{"a credential that comes later", "AcmeMachine", "metadata: {annotations: {drover.cattle.io/allow-missing-credential: 'true'}}\n" + credential("", "later")},
		{"a credential that comes later, in another word", "AcmeMachine", "metadata: {annotations: {drover.cattle.io/allow-missing-credential: 'yes'}}\n" + credential("", "later")},
		{"a machine made by Cluster API", "AcmeMachine", "metadata: {annotations: {cluster.x-k8s.io/cloned-from-name: t}}\n" + credential("", "later")},
		{"a template that is moved or restored with its Cluster", "AcmeMachineTemplate",
			"metadata: {ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: c, uid: u}]}\n" + credential("AcmeMachineTemplate", "later")},
		{"a machine that is paused", "AcmeMachine", "metadata: {annotations: {cluster.x-k8s.io/paused: \"\"}}\n" + credential("", "later")},
		{"a machine made by Cluster API, credential not shared", "AcmeMachine", "metadata: {annotations: {cluster.x-k8s.io/cloned-from-name: t}}\n" + credential("", "OTHER:kept")},
		{"a driver", "NodeDriver", "spec: {url: 'https://drivers.example/x', " + checksum + "}"},
		{"a driver with md5", "NodeDriver", "spec: {url: 'https://drivers.example/x', checksum: d41d8cd98f00b204e9800998ecf8427e}"},
		{"a driver with a password in its URL", "NodeDriver", "spec: {url: 'https://me:word@drivers.example/x', " + checksum + "}"},
		{"a driver without a host", "NodeDriver", "spec: {url: 'https:///x', " + checksum + "}"},
		{"a driver with a name that is none", "NodeDriver", "spec: {displayName: ../x, url: 'https://drivers.example/x', " + checksum + "}"},
		{"a driver that is not built in", "NodeDriver", "spec: {displayName: acme, url: 'local://'}"},
		{"a driver with odd annotations", "NodeDriver", "metadata: {annotations: {defaults: x}}\nspec: {url: 'https://drivers.example/x', " + checksum + "}"},
	}
	for _, kind := range []string{"AcmeMachine", "AcmeMachineTemplate"} {
		for _, name := range []string{"here", "nowhere", "NAMESPACE:here", "OTHER:shared", "OTHER:everybodys", "OTHER:kept", "OTHER:nowhere"} {
			out = append(out, attempt{kind + " with the credential " + name, kind, credential(kind, name)})
		}
	}
	return out
}

// A user's answers, word by word, from a real API server that asks our webhooks over TLS. In a dry run nothing is refused that another object of the same
// manifest would put right.
func TestServerAnswersWhatUsersMake(t *testing.T) {
	c, namespace, other := newCluster(t), testkit.Namespace(t), testkit.Namespace(t)
	checksum := strings.Repeat("a", 64)
	for name, active := range map[string]bool{"acme": true, "idle": false} {
		nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v3.NodeDriverSpec{URL: "https://drivers.example/x", Checksum: checksum, Active: active}}
		require.NoError(t, c.Create(t.Context(), nd))
		t.Cleanup(func() { _ = c.Delete(context.Background(), nd) })
	}
	for name, allowed := range map[string]string{"shared": "x, " + namespace, "everybodys": "*", "kept": "another"} {
		require.NoError(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: name,
			Annotations: map[string]string{"drover.cattle.io/allowed-namespaces": allowed}}}))
	}
	require.NoError(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "here"}}))

	var out strings.Builder
	for i, tt := range attempts() {
		text := strings.NewReplacer("NAMESPACE", namespace, "OTHER", other).Replace(tt.text)
		try := func(options ...client.CreateOption) string {
			obj := kindOf(t, tt.kind, namespace, fmt.Sprintf("a%d", i), text)
			err := c.Create(t.Context(), obj, options...)
			if err == nil && len(options) == 0 {
				require.NoError(t, c.Delete(t.Context(), obj))
			}
			return c.told(err, namespace, "NAMESPACE", other, "OTHER")
		}
		answer := try()
		fmt.Fprintf(&out, "%s\n%s", tt.name, answer)
		if dry := try(client.DryRunAll); dry != answer {
			fmt.Fprintf(&out, "%s, in a dry run\n%s", tt.name, dry)
		}
	}
	golden.Require(t, "testdata/answers.golden", out.String())
}

// Templates stay as they are; their labels, and the dry runs of ClusterClass, do not make a difference to machines.
func TestServerKeepsTemplatesAsTheyAre(t *testing.T) {
	c, namespace := newCluster(t), testkit.Namespace(t)
	manager := c.as(t, managerName)
	for kind, text := range map[string]string{
		"AcmeMachineTemplate":  "spec: {template: {spec: {size: s}}}",
		"RKEClusterTemplate":   "spec: {template: {metadata: {labels: {a: b}}}}",
		"RKEBootstrapTemplate": "spec: {template: {metadata: {labels: {a: b}}}}",
	} {
		t.Run(kind, func(t *testing.T) {
			template := kindOf(t, kind, namespace, "one", text)
			require.NoError(t, manager.Create(t.Context(), template))
			changed := template.DeepCopy()
			require.NoError(t, unstructured.SetNestedField(changed.Object, "c", "spec", "template", "metadata", "labels", "a"))
			for _, user := range []client.Client{c, manager} {
				require.ErrorContains(t, user.Update(t.Context(), changed.DeepCopy()), "create a new template under another name, and set "+
					"infrastructureRef.name or bootstrap.configRef.name in spec.template.spec of the MachineDeployment to it")
				require.Error(t, user.Update(t.Context(), changed.DeepCopy(), client.DryRunAll), "a dry run tells what would come")
			}
			dry := changed.DeepCopy()
			dry.SetAnnotations(map[string]string{"topology.cluster.x-k8s.io/dry-run": ""})
			require.NoError(t, manager.Update(t.Context(), dry.DeepCopy(), client.DryRunAll))
			require.Error(t, manager.Update(t.Context(), dry), "the annotation alone opens nothing")
			template.SetLabels(map[string]string{"x": "y"})
			template.SetFinalizers([]string{"example.com/wait"})
			require.NoError(t, c.Update(t.Context(), template))
			template.SetFinalizers(nil)
			require.NoError(t, c.Update(t.Context(), template))
		})
	}
	config := kindOf(t, "AcmeConfig", namespace, "one", "size: s")
	require.NoError(t, manager.Create(t.Context(), config))
	config.Object["size"] = "l"
	require.NoError(t, manager.Update(t.Context(), config), "a config is no template")
}

// What the driver was asked for when it made a server stays as it was: nobody would do anything about a change.
func TestServerKeepsTheOptionsOfARunningMachine(t *testing.T) {
	c, ns := newCluster(t), testkit.Namespace(t)
	machine := kindOf(t, "AcmeMachine", ns, "m", "spec: {size: s, accessToken: old, common: {labels: {a: b}}}")
	require.NoError(t, c.as(t, managerName).Create(t.Context(), machine))
	change := func(value any, path ...string) error {
		patch := map[string]any{}
		require.NoError(t, unstructured.SetNestedField(patch, value, path...))
		raw, err := json.Marshal(patch)
		require.NoError(t, err)
		return c.Patch(t.Context(), machine.DeepCopy(), client.RawPatch(types.MergePatchType, raw))
	}
	require.NoError(t, change("m", "spec", "size"), "a machine without a server is mended so")
	machine = testkit.ExpectExists(t, c, machine)
	require.NoError(t, unstructured.SetNestedField(machine.Object, true, "status", "ready"))
	require.NoError(t, c.Status().Update(t.Context(), machine))

	var err error
	tries := 0
	awaitRefusal(t, func() error { // the policies are heard of one by one, and each try must change something
		tries++
		err = change(fmt.Sprint("l", tries), "spec", "size")
		return err
	})
	require.ErrorContains(t, err, "create a new machine template")
	require.ErrorContains(t, change(nil, "spec", "size"), "create a new machine template", "taking away is a change too")
	require.ErrorContains(t, change("nyc", "spec", "region"), "create a new machine template")
	require.NoError(t, change(nil, "spec", "region"), "null is the same as nothing")
	require.NoError(t, change("new", "spec", "accessToken"), "credentials are rotated")
	require.NoError(t, change("acme://1", "spec", "providerID"))
	require.NoError(t, change("c", "spec", "common", "labels", "a"))
	require.NoError(t, change("x", "metadata", "labels", "y"))

	machine = testkit.ExpectExists(t, c, machine)
	machine.SetFinalizers([]string{"test.example.com/kept"})
	require.NoError(t, c.Update(t.Context(), machine))
	require.NoError(t, c.Delete(t.Context(), machine))
	require.NoError(t, change("l", "spec", "size"), "a removal may need other options")
	require.NoError(t, change([]any{}, "metadata", "finalizers"))
}

// largePattern compiles to 36 MB, and fits into the length that the CRD allows.
var largePattern = "(?:" + strings.Repeat("a", 240) + "){1000}"

func withPattern(t *testing.T, namespace, name, pattern string) *unstructured.Unstructured {
	t.Helper()
	obj := kindOf(t, "RKEControlPlane", namespace, name, "spec: {kubernetesVersion: v1.34.1+k3s1}")
	rewrites := map[string]any{pattern: "$0"}
	require.NoError(t, unstructured.SetNestedMap(obj.Object, map[string]any{"docker.io": map[string]any{"rewrite": rewrites}}, "spec", "registries", "mirrors"))
	return obj
}

// A pattern that costs too much to compile is rejected where the user writes it.
func TestServer_largePatterns(t *testing.T) {
	c, namespace := newCluster(t), testkit.Namespace(t)
	require.NoError(t, c.Create(t.Context(), withPattern(t, namespace, "good", "^library/(.*)")))
	require.ErrorContains(t, c.Create(t.Context(), withPattern(t, namespace, "large", largePattern)),
		`spec.registries.mirrors["docker.io"].rewrite: the pattern "(?:aaa`)
	require.ErrorContains(t, c.Create(t.Context(), withPattern(t, namespace, "long", strings.Repeat("a", 257))), "a pattern has at most 256 bytes")
	changed := testkit.ExpectExists(t, c, withPattern(t, namespace, "good", ""))
	changed.Object["spec"] = withPattern(t, namespace, "good", largePattern).Object["spec"]
	require.ErrorContains(t, c.Update(t.Context(), changed), "compiles to more than 2000 instructions")
}

// A field that the manager could not decode is rejected where the user writes it; other changes of an
// object that is already stored with such a field are not.
func TestServer_bounds(t *testing.T) {
	c, namespace := newCluster(t), testkit.Namespace(t)
	list := strings.Repeat("[", 30) + strings.Repeat("]", 30)
	spec := func(name, value string) *unstructured.Unstructured {
		return kindOf(t, "RKEControlPlane", namespace, name, "spec: {kubernetesVersion: v1.34.1+k3s1, machineGlobalConfig: {tls-san: "+value+"}, clusterName: x}")
	}
	large := "[" + strings.Repeat(list+",", 400) + "[]]"
	require.NoError(t, c.Create(t.Context(), spec("good", "[a]")))
	require.ErrorContains(t, c.Create(t.Context(), spec("large", large)), "spec.machineGlobalConfig has more than 8192 elements")
	changed := testkit.ExpectExists(t, c, spec("good", ""))
	changed.Object["spec"] = spec("good", large).Object["spec"]
	require.ErrorContains(t, c.Update(t.Context(), changed), "spec.machineGlobalConfig has more than 8192 elements")

	stored := spec("stored", large)
	require.NoError(t, c.as(t, managerName).Create(t.Context(), stored), "the webhook does not check what the manager writes")
	stored.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, unstructured.SetNestedField(stored.Object, "v1.34.2+k3s1", "spec", "kubernetesVersion"))
	require.NoError(t, c.Update(t.Context(), stored), "the bounded field does not change")
	unstructured.RemoveNestedField(stored.Object, "spec", "machineGlobalConfig")
	require.NoError(t, c.Update(t.Context(), stored))
}

// A user gets warnings about arguments and versions when the specification is written.
func TestServer_warnings(t *testing.T) {
	c, namespace := newCluster(t), testkit.Namespace(t)
	spec := func(version, argument string) *unstructured.Unstructured {
		return kindOf(t, "RKEControlPlane", namespace, "one", "spec: {kubernetesVersion: "+version+", machineGlobalConfig: {"+argument+": [max-pods=60]}}")
	}
	const mistyped = "  warning: spec.machineGlobalConfig: kubelet-args is not a known argument of v1.36.3+k3s1: did you mean kubelet-arg? " +
		"It is passed on unchanged, and k3s may not start with it\n"
	testkit.Eventually(t, time.Minute, func() error { // webhooks are known one by one
		if c.told(c.Create(t.Context(), spec("v1.36.3+k3s1", "kubelet-args"), client.DryRunAll)) == "  taken\n" {
			return errors.New("no warning yet")
		}
		return nil
	})
	obj := spec("v1.36.3+k3s1", "kubelet-args")
	require.Equal(t, mistyped+"  taken\n", c.told(c.Create(t.Context(), obj)))
	change := func(version, argument string) string {
		changed := testkit.ExpectExists(t, c, obj)
		changed.Object["spec"] = spec(version, argument).Object["spec"]
		return c.told(c.Update(t.Context(), changed))
	}
	require.Equal(t, "  taken\n", change("v1.36.3+k3s1", "kubelet-arg"))
	require.Contains(t, change("v1.99.1+k3s1", "kubelet-arg"), "  warning: spec.kubernetesVersion: unknown release")
	require.Equal(t, "  taken\n", change("v1.36.3+k3s1", "kubelet-arg"), "a cluster that does not exist yet has no version")

	established := testkit.ExpectExists(t, c, obj)
	established.Object["status"] = map[string]any{"versions": []any{map[string]any{"version": "v1.36.3+k3s1", "replicas": int64(1)}}}
	require.NoError(t, c.Status().Update(t.Context(), established))
	require.Contains(t, change("v1.35.7+k3s1", "kubelet-arg"), "Set v1.36.3+k3s1 again, or another release of 1.36 (KubernetesVersionSkew)")
	require.Equal(t, "  taken\n", change("v1.36.3+k3s1", "kubelet-arg"))
	c.stop()
	require.NoError(t, c.Create(t.Context(), kindOf(t, "RKEControlPlane", namespace, "two", "spec: {kubernetesVersion: v1.36.3+k3s1}"), client.DryRunAll), "warnings stop nothing")
}

// While no manager runs, an object that is already stored with such a pattern can be paused and
// mended. If the webhook configurations are removed first, it can be deleted.
func TestServerWithoutUs_largePatterns(t *testing.T) {
	c, namespace := newCluster(t), testkit.Namespace(t)
	stored := withPattern(t, namespace, "stored", largePattern)
	require.NoError(t, c.as(t, managerName).Create(t.Context(), stored), "the webhook does not check what the manager writes")
	c.stop()
	stored.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	stored.SetFinalizers([]string{"example.com/wait"})
	require.NoError(t, c.Update(t.Context(), stored))
	require.ErrorContains(t, c.Delete(t.Context(), stored), `failed calling webhook "rkecontrolplanes.drover.cattle.io"`)
	mended := stored.DeepCopy()
	unstructured.RemoveNestedField(mended.Object, "spec", "registries")
	require.NoError(t, c.Update(t.Context(), mended, client.DryRunAll))

	require.NoError(t, c.Delete(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: admission.ConfigurationName}}))
	testkit.Eventually(t, time.Minute, func() error { return c.Delete(t.Context(), stored) })
	stored = testkit.ExpectExists(t, c, stored)
	stored.SetFinalizers(nil)
	require.NoError(t, c.Update(t.Context(), stored))
	testkit.ExpectNotFound(t, c, stored)
}

// While no manager runs, nothing new is made unchecked; what exists can be labelled, finalized and deleted, and the manager itself can start.
func TestServerWithoutUs(t *testing.T) {
	c, namespace := newCluster(t), testkit.Namespace(t)
	manager := c.as(t, managerName)
	machine := kindOf(t, "AcmeMachine", namespace, "one", "spec: {size: s}\nmetadata: {finalizers: [example.com/wait]}")
	require.NoError(t, manager.Create(t.Context(), machine))
	c.stop()
	require.ErrorContains(t, c.Create(t.Context(), kindOf(t, "AcmeMachine", namespace, "two", "spec: {}")), `failed calling webhook "machines.drover.cattle.io"`)
	require.ErrorContains(t, c.Create(t.Context(), kindOf(t, "NodeDriver", "", "late", "spec: {url: 'local://'}")), `failed calling webhook "nodedrivers.drover.cattle.io"`)
	changed := machine.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(changed.Object, "l", "spec", "size"))
	require.ErrorContains(t, c.Update(t.Context(), changed), `failed calling webhook "machines.drover.cattle.io"`)

	machine.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, c.Update(t.Context(), machine))
	machine.Object["status"] = map[string]any{"phase": "Running"}
	require.NoError(t, c.Status().Update(t.Context(), machine))
	require.NoError(t, c.Delete(t.Context(), machine))
	testkit.ExpectExists(t, c, machine)
	machine.SetFinalizers(nil)
	require.NoError(t, c.Update(t.Context(), machine))
	testkit.ExpectNotFound(t, c, machine)

	own := kindOf(t, "NodeDriver", "", "noop", "spec: {url: 'local://'}")
	require.NoError(t, manager.Create(t.Context(), own), "what the manager writes is not sent back to it")
	require.NoError(t, manager.Delete(t.Context(), own))
}
