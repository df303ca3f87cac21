package inventory_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// now is the clock of snapshots.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// The kinds of the two drivers, as the API tells them.
var (
	digitalocean = facts.Kind{Name: "DigitaloceanMachine", Resource: "digitaloceanmachines", Singular: "digitaloceanmachine", ShortNames: []string{"digitaloceanm"}}
	generic      = facts.Kind{Name: "GenericMachine", Resource: "genericmachines", Singular: "genericmachine", ShortNames: []string{"genericm"}}
)

// installed makes sure that the definitions are applied once.
var installed sync.Once

// world is a namespace of a real API server with our kinds and Cluster API's, and an administrator's view of it.
type world struct {
	client.Client
	*inventory.API

	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	installed.Do(func() { testkit.ApplyCRDs(t, definitions(t)...) })
	return &world{Client: testkit.Client(t, scheme.Scheme), API: connect(t, testkit.Config(t)), namespace: testkit.Namespace(t)}
}

// make makes an object and removes it with the test: nothing here empties a namespace, and other tests look into all of them.
func (w *world) make(t *testing.T, object client.Object) {
	t.Helper()
	require.NoError(t, w.Create(t.Context(), object))
	t.Cleanup(func() {
		_ = w.Delete(context.WithoutCancel(t.Context()), object, client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0))
	})
}

func connect(t *testing.T, config *rest.Config) *inventory.API {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return &inventory.API{Dynamic: objects, Kube: kube}
}

func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range []string{
		"charts/drover/crds/management.cattle.io_nodedrivers.yaml", "charts/drover/crds/rke.cattle.io_serverscans.yaml", "capi/crds/cluster.x-k8s.io_clusters.yaml", "capi/crds/cluster.x-k8s.io_machines.yaml",
		"capi/crds/cluster.x-k8s.io_machinesets.yaml", "capi/crds/cluster.x-k8s.io_machinedeployments.yaml",
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		require.NoError(t, err, "run make generate")
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(raw, crd))
		crds = append(crds, crd)
	}
	for _, name := range []string{"digitalocean", "generic"} {
		flags, ok := driver.Builtin(name)
		require.True(t, ok)
		fields, err := crdgen.FieldsOf(name, flags, crdgen.Rules{})
		require.NoError(t, err)
		_, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
		require.NoError(t, err)
		crds = append(crds, template, machine)
	}
	return crds
}

// apply makes an object from YAML, status included, in the world's namespace.
func (w *world) apply(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	object.SetNamespace(w.namespace)
	status := object.Object["status"]
	w.make(t, object)
	if status != nil {
		object.Object["status"] = status
		require.NoError(t, w.Status().Update(t.Context(), object))
	}
	return object
}

// machine makes a machine of a kind; labels and owners are written as YAML flow maps.
func (w *world) machine(t *testing.T, kind, name, metadata string) *facts.Machine {
	t.Helper()
	object := w.apply(t, "apiVersion: rke-machine.cattle.io/v1\nkind: "+kind+"\nmetadata: {name: "+name+metadata+"}\nspec: {}\n")
	return w.decode(t, object)
}

func (w *world) decode(t *testing.T, object *unstructured.Unstructured) *facts.Machine {
	t.Helper()
	kind := generic
	if object.GetKind() == digitalocean.Name {
		kind = digitalocean
	}
	m, err := facts.DecodeMachine(kind, object.Object)
	require.NoError(t, err)
	return m
}

// capiMachine makes a CAPI Machine that refers to an infra machine.
func (w *world) capiMachine(t *testing.T, name, kind, infra, metadata string) *unstructured.Unstructured {
	t.Helper()
	return w.apply(t, "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: "+name+metadata+"}\nspec:\n  clusterName: store\n"+
		"  bootstrap: {dataSecretName: boot}\n  infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: "+kind+", name: "+infra+"}\n")
}

func (w *world) secret(t *testing.T, name string, data map[string]string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: data}
	w.make(t, secret)
	return secret
}

// as is the view of a user who has these rights in the namespace, and what everybody has.
func (w *world) as(t *testing.T, user string, rules ...rbacv1.PolicyRule) *inventory.API {
	t.Helper()
	if len(rules) > 0 { // a binding to a Role that the API server has not heard of yet is told in every refusal
		meta := metav1.ObjectMeta{Namespace: w.namespace, Name: user}
		require.NoError(t, w.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}))
		require.NoError(t, w.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}))
	}
	for _, rule := range rules {
		w.awaitRight(t, user, rule)
	}
	config := testkit.Config(t)
	config.Impersonate.UserName = user
	return connect(t, config)
}

// awaitRight returns when the API server knows of a rule, which it learns a moment after it was made.
func (w *world) awaitRight(t *testing.T, user string, rule rbacv1.PolicyRule) {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: w.namespace, Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: rule.Verbs[0]}}}
	testkit.Eventually(t, 2*time.Minute, func() error {
		answer, err := w.Kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = fmt.Errorf("%s may not yet: %+v", user, rule)
		}
		return err
	})
}

// account makes a service account and gives its token.
func (w *world) account(t *testing.T, name string) string {
	t.Helper()
	accounts := w.Kube.CoreV1().ServiceAccounts(w.namespace)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// may is a rule for one group.
func may(group string, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// cannot is how the API server refuses.
func cannot(user, verb, resource, group, name, where string) string {
	what := resource
	if group != "" {
		what += "." + group
	}
	if name != "" {
		what += fmt.Sprintf(" %q", name)
	}
	return fmt.Sprintf("%s is forbidden: User %q cannot %s resource %q in API group %q %s", what, user, verb, resource, group, where)
}

// through is the administrator's view through a proxy, in which intercept answers instead of the API server when it returns true.
func (w *world) through(t *testing.T, intercept func(http.ResponseWriter, *http.Request) bool) *inventory.API {
	t.Helper()
	config := testkit.Config(t)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if !intercept(out, r) {
			proxy.ServeHTTP(out, r)
		}
	}))
	t.Cleanup(server.Close)
	return connect(t, &rest.Config{Host: server.URL, QPS: -1})
}

// answer writes a Status of the API.
func answer(out http.ResponseWriter, status metav1.Status) bool {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	raw, err := yaml.Marshal(status)
	if err == nil {
		raw, err = yaml.YAMLToJSON(raw)
	}
	if err != nil {
		raw = []byte(err.Error())
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(int(status.Code))
	_, _ = out.Write(bytes.TrimSpace(raw))
	return true
}

// failure is a server that cannot do its work.
var failure = metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd is ill"}

// notFound is how an API server answers for a kind it does not have.
func notFound(out http.ResponseWriter) bool {
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out.WriteHeader(http.StatusNotFound)
	_, _ = out.Write([]byte("404 page not found\n"))
	return true
}

// names are the machines' names, in the order given.
func names(machines []*facts.Machine) []string {
	var all []string
	for _, m := range machines {
		all = append(all, m.Kind.Name+"/"+m.Name)
	}
	return all
}

func pemOf(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}
