package command_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// installed makes sure that the definitions are applied once.
var installed sync.Once

// cluster is a namespace of a real API server with our kinds and Cluster API's.
type cluster struct {
	client.Client

	namespace, kubeconfig string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	installed.Do(func() {
		testkit.ApplyCRDs(t, definitions(t)...)
		runManager(t)
	})
	return &cluster{Client: testkit.Client(t, ourScheme(t)), namespace: testkit.Namespace(t), kubeconfig: testkit.Kubeconfig(t)}
}

// ourScheme has the types of Kubernetes and of the objects of a cluster.
func ourScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, provv1.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme} {
		require.NoError(t, add(all))
	}
	return all
}

// runManager renews the Lease of a manager as long as the tests run.
func runManager(t *testing.T) {
	t.Helper()
	c := testkit.Client(t, scheme.Scheme)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "drover-manager", Labels: map[string]string{"app.kubernetes.io/version": "v1.2.3"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("manager"), RenewTime: new(metav1.NowMicro())},
	}
	require.NoError(t, c.Create(t.Context(), lease))
	go func() {
		for range time.Tick(time.Second) {
			lease.Spec.RenewTime = new(metav1.NowMicro())
			if c.Update(context.Background(), lease) != nil {
				return // the API server has ended
			}
		}
	}()
}

// definitions are those of an installation with two drivers.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range []string{
		"charts/drover/crds/management.cattle.io_nodedrivers.yaml", "charts/drover/crds/rke.cattle.io_rkecontrolplanes.yaml",
		"charts/drover/crds/provisioning.cattle.io_clusters.yaml",
		"capi/crds/cluster.x-k8s.io_clusters.yaml", "capi/crds/cluster.x-k8s.io_machines.yaml",
		"capi/crds/cluster.x-k8s.io_machinesets.yaml", "capi/crds/cluster.x-k8s.io_machinedeployments.yaml",
		"capi/crds/cluster.x-k8s.io_machinehealthchecks.yaml",
		"charts/drover/crds/rke.cattle.io_rkeclusters.yaml", "charts/drover/crds/rke.cattle.io_rkebootstraptemplates.yaml",
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
		predefined := driver.Predefined()
		at := slices.IndexFunc(predefined, func(d v3.NodeDriver) bool { return d.Name == name })
		require.GreaterOrEqual(t, at, 0)
		rules, err := crdgen.RulesFromAnnotations(predefined[at].Annotations)
		require.NoError(t, err)
		fields, err := crdgen.FieldsOf(name, flags, rules)
		require.NoError(t, err)
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
		require.NoError(t, err)
		crds = append(crds, config, template, machine)
	}
	return crds
}

// drover runs the command in the cluster's namespace.
func (c *cluster) drover(t *testing.T, args ...string) result {
	t.Helper()
	return c.droverWith(t, "", args...)
}

func (c *cluster) droverWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return execute(t, command.Options{}, stdin, append([]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace}, args...)...)
}

// ok runs a command that must succeed, and returns its output.
func (c *cluster) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := c.drover(t, args...)
	require.Zero(t, r.code, r.errOut)
	return r.out
}

// make makes an object and removes it with the test: nothing here empties a namespace, and tests look into all of them.
func (c *cluster) make(t *testing.T, object client.Object) {
	t.Helper()
	require.NoError(t, c.Create(t.Context(), object))
	t.Cleanup(func() {
		_ = c.Delete(context.WithoutCancel(t.Context()), object, client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0))
	})
}

// apply makes objects from YAML, status included, in the cluster's namespace.
func (c *cluster) apply(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	object.SetNamespace(c.namespace)
	status := object.Object["status"]
	c.make(t, object)
	if status != nil {
		object.Object["status"] = status
		require.NoError(t, c.Status().Update(t.Context(), object))
	}
	return object
}

// read gets an object again.
func (c *cluster) read(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(object.GroupVersionKind())
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), fresh))
	return fresh
}

const runningMachine = `
apiVersion: rke-machine.cattle.io/v1
kind: DigitaloceanMachine
metadata:
  name: web-1
  labels: {cluster.x-k8s.io/cluster-name: store, rke.cattle.io/capi-machine-name: pool-abc}
spec:
  region: nyc3
  providerID: digitalocean://4711
  common: {cloudCredentialSecretName: do-token}
status:
  phase: Running
  ready: true
  jobName: web-1-create-1
  instanceName: web-1
  addresses: [{type: ExternalIP, address: 198.18.0.11}]
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}
`

const waitingMachine = `
apiVersion: rke-machine.cattle.io/v1
kind: GenericMachine
metadata:
  name: db-1
  labels: {cluster.x-k8s.io/cluster-name: store}
spec: {}
status:
  phase: Pending
  conditions:
  - {type: ClusterReady, status: "True", reason: ClusterInfrastructureReady, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: DriverReady, status: "True", reason: DriverReady, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: BootstrapReady, status: "False", reason: WaitingForBootstrapData, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: Ready, status: "False", reason: WaitingForBootstrapData, message: "no bootstrap data yet", lastTransitionTime: "2026-03-01T11:00:00Z"}
`

const capiMachine = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: pool-abc}
spec:
  clusterName: store
  bootstrap: {dataSecretName: boot}
  infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: DigitaloceanMachine, name: web-1}
`

// secret makes a Secret.
func (c *cluster) secret(t *testing.T, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, StringData: data}
	c.make(t, secret)
}

// keyPair makes an SSH key: the private one in OpenSSH form, and the authorized_keys line.
func keyPair(t *testing.T) (private, authorized []byte) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	line, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(line)
}

// grant gives a user rights in the namespace, as YAML flow maps, and returns when the API server knows of them.
func (c *cluster) grant(t *testing.T, user string, rules ...string) {
	t.Helper()
	c.apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: `+user+`}, rules: [`+strings.Join(rules, ", ")+`]}`)
	c.apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: `+user+`}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: `+user+`},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+user+`}]}`)
	for _, text := range rules {
		var rule rbacv1.PolicyRule
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &rule))
		testkit.Eventually(t, 2*time.Minute, func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: c.namespace, Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: rule.Verbs[0]}}}
			err := c.Create(t.Context(), review)
			if err == nil && !review.Status.Allowed {
				err = fmt.Errorf("%s may not yet: %s", user, text)
			}
			return err
		})
	}
}
