package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit"
)

// asManager makes the test binary be the manager, so that flags and signals are tested too, and managers can be many.
const asManager = "DROVER_TEST_AS_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		main()
		return
	}
	testkit.Main(m)
}

const patience = 4 * time.Minute

// startManager runs a manager until stop is called or the test ends.
func startManager(t *testing.T, kubeconfig string, flags ...string) (stop func()) {
	t.Helper()
	_, stop = managerProcess(t, kubeconfig, flags...)
	return stop
}

func managerProcess(t *testing.T, kubeconfig string, flags ...string) (pid int, stop func()) {
	t.Helper()
	webhooks, health := testkit.FreePort(t), testkit.FreePort(t)
	cmd := exec.Command(os.Args[0], append([]string{"--kubeconfig=" + kubeconfig, "--machine-image=drover.local/drover:test",
		"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:" + health, "--webhook-host=127.0.0.1",
		"--webhook-port=" + webhooks, "--webhook-url=https://localhost:" + webhooks}, flags...)...)
	cmd.Env = append(os.Environ(), asManager+"=1")
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		stuck := time.AfterFunc(patience/6, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
		defer stuck.Stop()
		require.NoError(t, <-ended, "the manager must end well: %s", log)
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	testkit.Eventually(t, patience, func() error {
		select {
		case err := <-ended:
			stopped = true
			t.Fatalf("the manager ended: %v: %s", err, log)
		default:
		}
		return ready(t, "127.0.0.1:"+health)
	})
	return cmd.Process.Pid, stop
}

func ready(t *testing.T, address string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/readyz", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", resp.Status)
	}
	return nil
}

func testClient(t *testing.T) client.WithWatch {
	t.Helper()
	scheme, err := newScheme()
	require.NoError(t, err)
	return testkit.Client(t, scheme)
}

// installAccount gives a kubeconfig of the manager's service account: its role must be enough.
func installAccount(t *testing.T, c client.WithWatch) (kubeconfig string) {
	t.Helper()
	objs, err := charts.Objects(charts.Settings{Image: "drover.local/drover:test"})
	require.NoError(t, err)
	token := accountToken(t, c, objs)
	config, err := clientcmd.LoadFromFile(testkit.Kubeconfig(t))
	require.NoError(t, err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))
	return kubeconfig
}

func TestRun(t *testing.T) {
	c := testClient(t)
	account := installAccount(t, c)
	stop := startManager(t, account)
	awaitActive(t, c, "digitalocean")
	ns := testkit.Namespace(t)

	t.Run("a plain Cluster gets its infrastructure", func(t *testing.T) {
		makeCluster(t, c, ns, "one")
		testkit.Eventually(t, patience, func() error { return provisioned(t, c, ns) })
	})
	t.Run("Cluster API's own defaults and checks are there", func(t *testing.T) { testCAPIWebhooks(t, c, ns) })
	t.Run("admission", func(t *testing.T) { testAdmission(t, c, ns) })
	t.Run("two managers do not disturb each other, a restart writes nothing", func(t *testing.T) {
		before := versions(t, c, ns)
		stop()
		stop = startManager(t, account)
		second := startManager(t, account, "--leader-elect")
		awaitActive(t, c, "digitalocean")
		second()
		stop()
		require.Equal(t, before, versions(t, c, ns))
	})
	t.Run("managers end while their caches are still being filled", func(t *testing.T) {
		for range 4 {
			startManager(t, account)()
		}
	})
}

// A manager with a filter leaves what does not have its label to others.
func TestRun_watchFilter(t *testing.T) {
	c := testClient(t)
	startManager(t, installAccount(t, c), "--watch-filter=blue")
	awaitActive(t, c, "digitalocean")
	ns := testkit.Namespace(t)
	made := map[string][]*unstructured.Unstructured{}
	for _, name := range []string{"green", "blue"} { // what is not to be touched is there first
		cluster := machineOf(ns, name, "RKECluster", "")
		cluster.SetAPIVersion(rkev1.GroupVersion.String())
		made[name] = []*unstructured.Unstructured{cluster, machineOf(ns, name, "DigitaloceanMachine", "")}
		for _, obj := range made[name] {
			obj.SetLabels(map[string]string{clusterv1.WatchLabel: name})
			require.NoError(t, c.Create(t.Context(), obj))
		}
	}
	for i, obj := range made["blue"] {
		testkit.Eventually(t, patience, func() error {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil || obj.Object["status"] == nil {
				return fmt.Errorf("%s has no status yet: %w", obj.GetKind(), err)
			}
			return nil
		})
		other := made["green"][i]
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(other), other))
		require.Nil(t, other.Object["status"], other.GetKind())
	}
}

func hasReason(t *testing.T, c client.Client, nd *v3.NodeDriver, reason string) error {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(nd), nd); err != nil {
		return err
	}
	found := meta.FindStatusCondition(nd.Status.Conditions, v3.ReadyCondition)
	if found == nil || found.Reason != reason {
		return fmt.Errorf("waiting for reason %s: %+v", reason, found)
	}
	return nil
}

func awaitActive(t *testing.T, c client.Client, name string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		nd := &v3.NodeDriver{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, nd); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(nd.Status.Conditions, v3.ReadyCondition) {
			return fmt.Errorf("not ready: %+v", nd.Status.Conditions)
		}
		return nil
	})
}

func makeCluster(t *testing.T, c client.Client, ns, name string) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: name}
	infra := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "198.18.0.9", Port: 6443}
	require.NoError(t, c.Create(t.Context(), infra))
	require.NoError(t, c.Create(t.Context(), cluster))
}

func provisioned(t *testing.T, c client.Client, ns string) error {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "one"}, cluster); err != nil {
		return err
	}
	done := cluster.Status.Initialization.InfrastructureProvisioned
	if done == nil || !*done || cluster.Spec.ControlPlaneEndpoint.Host != "198.18.0.9" {
		return fmt.Errorf("not provisioned: %+v", cluster.Status)
	}
	return nil
}

// versions are the resource versions of everything the manager writes at the start or keeps.
func versions(t *testing.T, c client.Client, ns string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{
		&apiextensionsv1.CustomResourceDefinitionList{}, &v3.NodeDriverList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{},
		&rbacv1.RoleBindingList{}, &corev1.NamespaceList{}, &corev1.SecretList{}, &rkev1.RKEClusterList{},
		&admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
	} {
		require.NoError(t, c.List(t.Context(), list))
		require.NoError(t, meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			out[fmt.Sprintf("%T %s/%s", obj, obj.GetNamespace(), obj.GetName())] = obj.GetResourceVersion()
			return nil
		}))
	}
	return out
}

func TestServingNames(t *testing.T) {
	for url, want := range map[string][]string{
		"":                          {"drover-webhooks.team.svc", "drover-webhooks.team.svc.cluster.local"},
		"https://h.example:9443":    {"h.example"},
		"https://127.0.0.1:9443/x":  {"127.0.0.1"},
		"https://[2001:db8::1]:443": {"2001:db8::1"},
	} {
		names, err := servingNames(&options{managerNamespace: "team", webhookURL: url})
		require.NoError(t, err)
		require.Equal(t, want, names, url)
	}
	_, err := servingNames(&options{webhookURL: "https://%zz"})
	require.ErrorContains(t, err, "reading --webhook-url: ")
}

// TestOwnName: the manager's own requests are let pass when it is a service account; a person's never are.
func TestOwnName(t *testing.T) {
	asPerson, ns := testClient(t), testkit.Namespace(t)
	account, token := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "me"}}, &authenticationv1.TokenRequest{}
	require.NoError(t, asPerson.Create(t.Context(), account))
	require.NoError(t, asPerson.SubResource("token").Create(t.Context(), account, token))
	nameOf := func(token string) (string, error) {
		config := rest.AnonymousClientConfig(testkit.Config(t))
		config.BearerToken = token
		c, err := client.New(config, client.Options{Scheme: asPerson.Scheme()})
		require.NoError(t, err)
		return ownName(t.Context(), c)
	}
	name, err := nameOf(token.Status.Token)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:"+ns+":me", name)
	name, err = ownName(t.Context(), asPerson)
	require.NoError(t, err)
	require.Empty(t, name)
	_, err = nameOf("nonsense")
	require.ErrorContains(t, err, "asking the API server who we are: ")
}

// TestWebhooksStart: nothing is configured before the server answers, for then nobody could write anything.
func TestWebhooksStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	w := &webhooks{}
	require.NoError(t, w.start(ctx, func(*http.Request) error {
		if asked++; asked == 3 {
			cancel()
		}
		return errors.New("not yet")
	}))
	require.Equal(t, 3, asked)
	require.False(t, w.configured.Load())
}

// TestEndWell: only a manager that was told to stop is forgiven, and only for not ending in time.
func TestEndWell(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	late, broken := fmt.Errorf("waiting: %w", context.DeadlineExceeded), errors.New("broken")
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"running, broken":      {t.Context(), broken, broken},
		"running, late":        {t.Context(), late, late},
		"running, well":        {t.Context(), nil, nil},
		"told to stop, late":   {stopped, late, nil},
		"told to stop, broken": {stopped, broken, broken},
		"told to stop, well":   {stopped, nil, nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, endWell(c.ctx, c.err)) })
	}
}

func TestCacheOptions(t *testing.T) {
	all, err := (&options{}).cacheOptions()
	require.NoError(t, err)
	require.Empty(t, all.DefaultNamespaces)
	one, err := (&options{namespace: "team"}).cacheOptions()
	require.NoError(t, err)
	require.Len(t, one.DefaultNamespaces, 1)
	require.Contains(t, one.DefaultNamespaces, "team")
	access := 0
	for object, by := range one.ByObject {
		if by.Label.String() == "rke.cattle.io/machine-id" {
			require.Empty(t, by.Namespaces, "%T", object)
			access++
			continue
		}
		require.Equal(t, "drover.cattle.io/operation", by.Label.String(), "%T", object)
		require.Len(t, by.Namespaces, 2, "probes run in their own namespace: %T", object)
		require.Contains(t, by.Namespaces, "drover-drivers")
		require.Contains(t, by.Namespaces, "team")
	}
	require.Equal(t, 3, access, "an agent's ServiceAccount, Role and RoleBinding")
	for object, by := range all.ByObject {
		require.Empty(t, by.Namespaces, "%T", object)
	}
}

func TestDropPodSpec_keepsWhatIsWatched(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "team", Name: "m", Labels: map[string]string{"a": "b"}}
	written := meta
	written.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "drover-machine"}}
	spec := corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "machine"}}}
	for _, tt := range []struct{ in, want any }{
		{&batchv1.Job{ObjectMeta: written, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{Spec: spec}}, Status: batchv1.JobStatus{Active: 1}},
			&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0))}, Status: batchv1.JobStatus{Active: 1}}},
		{&corev1.Pod{ObjectMeta: written, Spec: spec, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
			&corev1.Pod{ObjectMeta: meta, Status: corev1.PodStatus{Phase: corev1.PodRunning}}},
		{"of another kind", "of another kind"},
	} {
		got, err := dropPodSpec(tt.in)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
}
