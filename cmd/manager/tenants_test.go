package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/admission"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// tenants are two who share a manager. One is admin of his namespace and nothing else, and wants what the other has.
type tenants struct {
	// admin is the test's own client; mallory has a token of the tenant's.
	admin, mallory client.WithWatch
	// config is mallory's access.
	config *rest.Config
	// here is his namespace, there the other's.
	here, there string
	// victim is the other's machine, which has a server.
	victim *unstructured.Unstructured
	// mole is a machine of his that goes with its namespace.
	mole *unstructured.Unstructured
	// owner is the victim's CAPI Machine.
	owner *clusterv1.Machine
	// listener is an API server of his, tokenFile a file of the manager's with its token.
	listener  *listener
	tokenFile string
	// webhooks is where the manager's webhooks listen.
	webhooks string
	// memory is the most that the manager has had, in MiB.
	memory func(t *testing.T) int
	// stop ends the manager, and start runs it again with the same flags.
	stop  func()
	start func(t *testing.T)
}

// othersSecret is in every Secret of the other tenant's.
const othersSecret = "marker-of-the-other-tenant"

func newTenants(t *testing.T, flags ...string) *tenants {
	t.Helper()
	c := testClient(t)
	account := installAccount(t, c)
	port := testkit.FreePort(t)
	flags = append(flags, "--scan-interval=0", "--webhook-port="+port, "--webhook-url=https://localhost:"+port)
	w := &tenants{admin: c, here: testkit.Namespace(t), there: testkit.Namespace(t), webhooks: "127.0.0.1:" + port, listener: newListener(t, nil),
		tokenFile: filepath.Join(t.TempDir(), "token")}
	w.start = func(t *testing.T) {
		t.Helper()
		pid, stop := managerProcess(t, account, flags...)
		w.memory = func(t *testing.T) int { t.Helper(); return peakMemory(t, pid) }
		w.stop = stop
	}
	w.start(t)
	awaitActive(t, c, "digitalocean")
	require.NoError(t, os.WriteFile(w.tokenFile, []byte("marker-manager-token"), 0o600))
	w.letAdmin(t)

	other := w.theirs(t)
	require.NoError(t, c.Create(t.Context(), other.secret("bootstrap", "value", "#!/bin/sh\n# "+othersSecret)))
	require.NoError(t, c.Create(t.Context(), other.secret("cred", "accessToken", othersSecret)))
	makeCluster(t, c, w.there, "c1")
	w.victim = w.server(other, "m1")
	w.owner = &clusterv1.Machine{}
	testkit.Eventually(t, patience, func() error {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(w.victim), w.owner)
		if err == nil && w.owner.Spec.ProviderID == "" {
			return errors.New("Cluster API has not taken the providerID yet")
		}
		return err
	})

	mine := w.mine(t)
	require.NoError(t, w.mallory.Create(t.Context(), mine.secret("bootstrap", "value", "#!/bin/sh\n")))
	require.NoError(t, w.mallory.Create(t.Context(), mine.secret("cred", "accessToken", "his-own")))
	makeCluster(t, w.mallory, w.here, "c1")
	w.awaitQuiet(t)
	return w
}

// awaitQuiet waits until what no attack may touch is no longer written by the manager's own start.
func (w *tenants) awaitQuiet(t *testing.T) {
	t.Helper()
	var before map[string]string
	quiet := 0
	testkit.Eventually(t, patience, func() error {
		now := w.untouched(t)
		if quiet++; !maps.Equal(before, now) {
			before, quiet = now, 0
		}
		if quiet < 10 {
			return errors.New("the manager still writes")
		}
		return nil
	})
}

// letAdmin binds the tenant to Kubernetes' role admin in his namespace, with what is gathered into that role: the test plays the controller
// that gathers.
func (w *tenants) letAdmin(t *testing.T) {
	t.Helper()
	roles, role := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRole{}
	require.NoError(t, w.admin.List(t.Context(), roles))
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: "admin"}, role))
	role.Rules = nil
	for _, part := range roles.Items {
		for _, name := range []string{"view", "edit", "admin"} {
			if part.AggregationRule == nil && part.Labels["rbac.authorization.k8s.io/aggregate-to-"+name] == "true" {
				role.Rules = append(role.Rules, part.Rules...)
			}
		}
	}
	require.NoError(t, w.admin.Update(t.Context(), role))
	named := metav1.ObjectMeta{Namespace: w.here, Name: "mallory"}
	account, token := &corev1.ServiceAccount{ObjectMeta: named}, &authenticationv1.TokenRequest{}
	require.NoError(t, w.admin.Create(t.Context(), account))
	require.NoError(t, w.admin.SubResource("token").Create(t.Context(), account, token))
	require.NoError(t, w.admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: named,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.here, Name: named.Name}}}))
	w.config = rest.AnonymousClientConfig(testkit.Config(t))
	w.config.BearerToken, w.config.QPS = token.Status.Token, -1
	w.mallory = w.as(t, "", nil)
	testkit.Eventually(t, patience, func() error {
		return w.mallory.List(t.Context(), &clusterv1.ClusterList{}, client.InNamespace(w.here))
	})
}

// as is mallory's client, which pretends to be another user unless that is empty. Without a mapper it asks which kinds there are.
func (w *tenants) as(t *testing.T, user string, mapper meta.RESTMapper) client.WithWatch {
	t.Helper()
	config := rest.CopyConfig(w.config)
	config.Impersonate.UserName = user
	scheme, err := newScheme()
	require.NoError(t, err)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	require.NoError(t, err)
	return c
}

// mine is what the tenant does in his namespace, theirs what the other does, and pods what the pods and Kubernetes do in the tenant's.
func (w *tenants) mine(t *testing.T) *story {
	t.Helper()
	return &story{T: t, client: w.mallory, namespace: w.here}
}

func (w *tenants) theirs(t *testing.T) *story {
	t.Helper()
	return &story{T: t, client: w.admin, namespace: w.there}
}

func (w *tenants) pods(t *testing.T) *story {
	t.Helper()
	return &story{T: t, client: w.admin, namespace: w.here}
}

// server makes a machine that gets its server.
func (w *tenants) server(s *story, name string, changes ...func(*clusterv1.Machine, *unstructured.Unstructured)) *unstructured.Unstructured {
	s.Helper()
	obj := s.machineOfCluster(name, changes...)
	(&story{T: s.T, client: w.admin}).play(s.namespace, jobrunner.JobName(name, state.Create, 1), state.Result{Outcome: state.Succeeded})
	testkit.Eventually(s, patience, func() error { return s.machineReason(obj, rkev1.ReadyCondition, rkev1.ReadyReason) })
	return obj
}

// checkRequest looks at what a Job for the tenant is asked to do: by the driver that he named, with his credential, and on his machine.
func (w *tenants) checkRequest(t *testing.T, key client.ObjectKey) error {
	t.Helper()
	secret, request := &corev1.Secret{}, jobrunner.Request{}
	if err := w.admin.Get(t.Context(), key, secret); err != nil {
		return err
	}
	require.NoError(t, json.Unmarshal(secret.Data[jobrunner.RequestKey], &request))
	require.Equal(t, state.DriverRef{Name: "digitalocean", Builtin: true}, request.Driver)
	require.Equal(t, key.Namespace, request.Namespace)
	require.Equal(t, w.here, request.Machine.Namespace)
	require.NotEqual(t, string(w.victim.GetUID()), request.Machine.UID)
	require.Equal(t, "his-own", request.CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"])
	return nil
}

// untouched is all that the tenant must not change: what the other has, what the manager keeps, and what all share.
func (w *tenants) untouched(t *testing.T) map[string]string {
	t.Helper()
	out := versions(t, w.admin, w.there)
	for key := range out {
		if !w.isOthers(key) {
			delete(out, key)
		}
	}
	machines := &unstructured.UnstructuredList{}
	machines.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachineList"))
	for _, namespace := range []string{w.there, driver.CacheNamespace} {
		jobs, accounts := &batchv1.JobList{}, &corev1.ServiceAccountList{}
		for _, list := range []client.ObjectList{machines, jobs, accounts, &corev1.ConfigMapList{}, &rkev1.ServerScanList{}} {
			require.NoError(t, w.admin.List(t.Context(), list, client.InNamespace(namespace)))
			raw, err := json.Marshal(list)
			require.NoError(t, err)
			read := &metav1.PartialObjectMetadataList{}
			require.NoError(t, json.Unmarshal(raw, read))
			for _, item := range read.Items {
				if !isRefuge(item.Name) {
					out[fmt.Sprintf("%T %s/%s", list, namespace, item.Name)] = item.ResourceVersion
				}
			}
		}
	}
	// Cluster API writes their status.
	owner := testkit.ExpectExists(t, w.admin, w.owner.DeepCopy())
	out["Machine"] = fmt.Sprint(owner.Generation, owner.DeletionTimestamp, owner.Labels, owner.OwnerReferences, owner.Finalizers)
	return out
}

// isRefuge reports whether an object was made for a machine whose namespace is being deleted: for the tenant's.
func isRefuge(name string) bool { return strings.HasPrefix(name, "refuge-") }

func (w *tenants) isOthers(key string) bool {
	if _, name, _ := strings.Cut(key, "/"); isRefuge(name) || name == w.here {
		return false
	}
	for _, place := range []string{" /", " " + w.there + "/", " " + driver.CacheNamespace + "/", " " + charts.DefaultNamespace + "/"} {
		if strings.Contains(key, place) {
			return true
		}
	}
	return false
}

// seen is all that the tenant can read in his namespace.
func (w *tenants) seen(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	machines := &unstructured.UnstructuredList{}
	machines.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachineList"))
	for _, list := range []client.ObjectList{machines, &batchv1.JobList{}, &corev1.ConfigMapList{}, &corev1.EventList{}, &clusterv1.ClusterList{},
		&clusterv1.MachineList{}, &rkev1.RKEClusterTemplateList{}, &rkev1.ServerScanList{}} {
		require.NoError(t, w.mallory.List(t.Context(), list, client.InNamespace(w.here)))
		require.NoError(t, json.NewEncoder(&all).Encode(list))
	}
	secrets := &corev1.SecretList{}
	require.NoError(t, w.mallory.List(t.Context(), secrets, client.InNamespace(w.here)))
	for _, secret := range secrets.Items {
		for _, data := range secret.Data {
			all.Write(data)
		}
	}
	return all.String()
}

// listener is an API server of the tenant's, which keeps what callers present to it.
type listener struct {
	*httptest.Server
	mu    sync.Mutex
	shown []string
}

func newListener(t *testing.T, answer http.HandlerFunc) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.shown = append(l.shown, r.Header.Get("Authorization"))
		l.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) calls() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.shown...)
}

// kubeconfig has further fields of its cluster and its user.
func (l *listener) kubeconfig(cluster, user string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: %q, insecure-skip-tls-verify: true%s}}]\nusers: [{name: u, user: {%s}}]\n", l.URL, cluster, user)
}

// kubeconfigSecret is one that Cluster API takes for the kubeconfig of a Cluster.
func (s *story) kubeconfigSecret(cluster, kubeconfig string) *corev1.Secret {
	secret := s.secret(cluster+"-kubeconfig", "value", kubeconfig)
	secret.Type, secret.Labels = clusterv1.ClusterSecretType, map[string]string{clusterv1.ClusterNameLabel: cluster}
	return secret
}

// attack is a tenant's pod with an address of its own, and with the path that he should not know: as many connections as it gets, each with a
// review of 6 MB whose last byte never comes, and a new one for each that is ended.
func attack(t *testing.T, c client.Client, address string) (stop func()) {
	t.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: admission.ConfigurationName}, configuration))
	target, err := url.Parse(*configuration.Webhooks[0].ClientConfig.URL)
	require.NoError(t, err)
	const connections, size = 60, 6 << 20
	ctx, cancel := context.WithCancel(t.Context())
	body := make([]byte, size-1)
	// The API server is at 127.0.0.1.
	dialer := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}, Config: &tls.Config{InsecureSkipVerify: true}}
	once := func() {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			return
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", target.Path, size)
		if _, err := conn.Write(body); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	var attackers sync.WaitGroup
	for range connections {
		attackers.Go(func() {
			for ctx.Err() == nil {
				once()
			}
		})
	}
	stop = func() {
		cancel()
		attackers.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// peakMemory is the most a process has had, in MiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kilobytes >> 10
}

// slowestAdmission asks for what a healthy tenant asks for.
func slowestAdmission(t *testing.T, c client.Client, ns string) time.Duration {
	t.Helper()
	var slowest time.Duration
	for i := range 20 {
		begin := time.Now()
		obj := machineOf(ns, fmt.Sprintf("healthy-%d", i), "DigitaloceanMachineTemplate", "")
		require.NoError(t, c.Create(t.Context(), obj, &client.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
		slowest = max(slowest, time.Since(begin))
	}
	return slowest
}

// TestWebhooks_underAttack: who holds bodies back costs the manager a bounded share of memory and nobody else any time, also when
// the manager starts while he does.
func TestWebhooks_underAttack(t *testing.T) {
	c := testClient(t)
	account := installAccount(t, c)
	port := testkit.FreePort(t)
	flags := []string{"--webhook-port=" + port, "--webhook-url=https://localhost:" + port}
	pid, stop := managerProcess(t, account, flags...)
	awaitActive(t, c, "digitalocean")
	ns := testkit.Namespace(t)
	usual, before := slowestAdmission(t, c, ns), peakMemory(t, pid)
	// The bodies held back are 360 MiB. Of those that may be read at once, 24, there are some generations before they are collected.
	const costs = 256

	attack(t, c, "127.0.0.1:"+port)
	deadline := time.Now().Add(15 * time.Second)
	var attacked time.Duration
	for time.Now().Before(deadline) {
		attacked = max(attacked, slowestAdmission(t, c, ns))
	}
	after := peakMemory(t, pid)
	t.Logf("slowest admission %s, under attack %s; peak memory %d MiB, under attack %d MiB", usual, attacked, before, after)
	require.Less(t, after-before, costs, "MiB of memory that the attack costs")
	require.Less(t, attacked, 3*usual+5*time.Second, "the API server waits for 10")

	stop()
	pid, _ = managerProcess(t, account, flags...)
	attacked, after = slowestAdmission(t, c, ns), peakMemory(t, pid)
	t.Logf("started under attack: slowest admission %s, peak memory %d MiB", attacked, after)
	require.Less(t, after-before, costs)
	require.Less(t, attacked, 3*usual+5*time.Second, "the API server waits for 10")
}
