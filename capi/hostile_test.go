package capi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/testkit"
)

// hostile is a workload API server of somebody who means harm.
type hostile struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

// newHostile answers as the handler does where it answers, and like a small real one elsewhere.
func newHostile(t *testing.T, answer func(h *hostile, w http.ResponseWriter, r *http.Request) bool) *hostile {
	t.Helper()
	h := &hostile{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, r)
		h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if answer != nil && answer(h, w, r) {
			return
		}
		switch {
		case r.URL.Path == "/api/v1":
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "nodes", Kind: "Node"}}})
		case isWatching(r):
			w.WriteHeader(http.StatusOK)
			_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/api/v1/nodes":
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
		default:
			_, _ = w.Write([]byte("{}"))
		}
	}))
	h.StartTLS()
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

func isWatching(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func (h *hostile) seen() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*http.Request{}, h.requests...)
}

func (h *hostile) kubeconfig(user string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	return "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nusers:\n- name: u\n  user:\n    " + strings.ReplaceAll(user, "\n", "\n    ") +
		"\nclusters: [{name: k, cluster: {server: '" + h.URL + "', certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca) + "}}]\n"
}

// tenant makes a provisioned Cluster with a kubeconfig.
func tenant(t *testing.T, c client.Client, namespace, name, kubeconfig string) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: name}}}
	testkit.ExpectApplied(t, c, kubeconfigSecret(namespace, name, kubeconfig))
	require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), cluster)))
	provisioned := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"initialization":{"infrastructureProvisioned":true}}}`))
	require.NoError(t, c.Status().Patch(t.Context(), cluster, provisioned))
	return cluster
}

func kubeconfigSecret(namespace, name, kubeconfig string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-kubeconfig",
		Labels: map[string]string{clusterv1.ClusterNameLabel: name}}, Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte(kubeconfig)}}
}

// healthy is a kubeconfig of a real API server.
func healthy(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(testkit.Kubeconfig(t))
	require.NoError(t, err)
	return string(content)
}

// watching runs a manager that connects to clusters. What it connects to is made before, so that the manager ends first.
func watching(t *testing.T, opts capi.Options) *workload.Clusters {
	t.Helper()
	mgr, _ := newManager(t)
	clusters, err := capi.Setup(t.Context(), mgr, opts)
	require.NoError(t, err)
	run(t, mgr, mgr.GetCache())
	return clusters
}

// reached waits until a Cluster's API server can be asked.
func reached(t *testing.T, clusters *workload.Clusters, key client.ObjectKey) time.Duration {
	t.Helper()
	began := time.Now()
	testkit.Eventually(t, patience, func() error {
		if !connected(t, clusters, key) {
			return fmt.Errorf("%s is not reached", key)
		}
		return nil
	})
	return time.Since(began)
}

func condition(t *testing.T, c client.Client, cluster *clusterv1.Cluster, status metav1.ConditionStatus) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	testkit.Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		for _, found = range cluster.Status.Conditions {
			if found.Type == workload.KubeconfigAcceptedCondition && found.Status == status {
				return nil
			}
		}
		return fmt.Errorf("no condition that is %s: %v", status, cluster.Status.Conditions)
	})
	return found
}

// A user who may write a Cluster's kubeconfig gets nothing of the manager's: not its token, not a connection. A TLS server of his listens.
func TestClusters_giveNobodyTheManagersToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("marker-manager-token"), 0o600))
	c := testkit.Client(t, newScheme(t))
	thief := newHostile(t, nil)
	clusters := watching(t, capi.Options{Embedded: true})
	namespace := testkit.Namespace(t)
	for name, user := range map[string]string{"file": "tokenFile: " + token, "both": "token: x\ntokenFile: " + token, "command": "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /bin/cat, args: [" + token + "]}"} {
		cluster := tenant(t, c, namespace, name, thief.kubeconfig(user))
		refused := condition(t, c, cluster, metav1.ConditionFalse)
		require.Equal(t, workload.KubeconfigRefusedReason, refused.Reason)
		require.Contains(t, refused.Message, "Secret "+name+"-kubeconfig: users[].user.")
		require.False(t, connected(t, clusters, client.ObjectKeyFromObject(cluster)))
	}
	require.Empty(t, thief.seen(), "nobody came")

	honest := tenant(t, c, namespace, "honest", thief.kubeconfig("token: his-own"))
	reached(t, clusters, client.ObjectKeyFromObject(honest))
	mended := tenant(t, c, namespace, "file", thief.kubeconfig("token: his-own"))
	condition(t, c, mended, metav1.ConditionTrue)
	reached(t, clusters, client.ObjectKeyFromObject(mended))
	for _, request := range thief.seen() {
		require.Equal(t, "Bearer his-own", request.Header.Get("Authorization"))
	}
	require.NoError(t, c.Update(t.Context(), kubeconfigSecret(namespace, "file", thief.kubeconfig("tokenFile: "+token))))
	condition(t, c, mended, metav1.ConditionFalse)
	testkit.Eventually(t, patience, func() error {
		if connected(t, clusters, client.ObjectKeyFromObject(mended)) {
			return errStillThere
		}
		return nil
	})
	told(t, c, namespace, "file", workload.KubeconfigRefusedReason, "users[].user.tokenFile")
}

// told waits for an event of a Cluster whose name begins so.
func told(t *testing.T, c client.Client, namespace, name, reason, message string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		events := &corev1.EventList{}
		if err := c.List(t.Context(), events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == reason && strings.HasPrefix(event.InvolvedObject.Name, name) && strings.Contains(event.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("no event %s of %s among %d", reason, name, len(events.Items))
	})
}

// packed is 4 MiB of gzip that unpack to 4 GiB.
func packed(t *testing.T) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	zeros := bytes.Repeat([]byte(" "), 1<<20)
	for range 4096 {
		_, err := writer.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	return buffer.Bytes()
}

// A workload API server, or root on it, that answers what it likes costs the manager a bounded share, and the neighbours nothing.
func TestClusters_surviveWhatServersAnswer(t *testing.T) {
	bomb := packed(t)
	endless := func(w http.ResponseWriter, r *http.Request, begin, again string) bool {
		_, _ = w.Write([]byte(begin))
		for again = strings.Repeat(again, 1000); r.Context().Err() == nil; {
			if _, err := w.Write([]byte(again)); err != nil {
				break
			}
		}
		return true
	}
	list := func(r *http.Request) bool { return r.URL.Path == "/api/v1/nodes" && !isWatching(r) }
	attacks := map[string]func(h *hostile, w http.ResponseWriter, r *http.Request) bool{
		"packed": func(_ *hostile, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
			return true
		},
		"endless": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool { return endless(w, r, "", "xxxxxxxxxx") },
		"headers": func(_ *hostile, w http.ResponseWriter, _ *http.Request) bool {
			for i := range 5000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
			return false
		},
		"elsewhere": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
			return true
		},
		"silent": func(_ *hostile, _ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
		"list of nothings": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			return list(r) && endless(w, r, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{}`, ",{}")
		},
		"nodes of nothings": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			return list(r) && endless(w, r, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"status":{"conditions":[{}`, ",{}")
		},
		"nodes of fields": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			return list(r) && endless(w, r, `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"status":{"capacity":{"a":"1"`, `,"0000":"1"`)
		},
		"numbers": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			if list(r) {
				_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"n"},"status":{"capacity":{"cpu":"1e-2000000000"}}}]}`))
			}
			return list(r)
		},
		"discovery": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Path == "/api/v1" && endless(w, r, `{"groupVersion":"v1","resources":[{"name":"nodes","kind":"Node"}`, `,{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)
		},
		"YAML": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/yaml")
			_, _ = w.Write([]byte("a: &a [x,x,x,x,x,x,x,x]\n"))
			return r.URL.Path != "/"
		},
		"Nodes without end": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			if !isWatching(r) {
				return false
			}
			for i := 0; r.Context().Err() == nil; i++ {
				_, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n%d","resourceVersion":"%d","annotations":{"a":"%s"}}}}`+"\n", i, i+1, strings.Repeat("x", 20<<10))
				if err != nil {
					break
				}
			}
			return true
		},
		"one endless event": func(_ *hostile, w http.ResponseWriter, r *http.Request) bool {
			return isWatching(r) && endless(w, r, `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","annotations":{"a":"`, "xxxxxxxxxxxxx")
		},
	}
	c := testkit.Client(t, newScheme(t))
	servers := map[string]*hostile{}
	for name, attack := range attacks {
		servers[name] = newHostile(t, attack)
	}
	clusters := watching(t, capi.Options{})
	namespace := testkit.Namespace(t)
	usual := reached(t, clusters, client.ObjectKeyFromObject(tenant(t, c, namespace, "before", healthy(t))))
	peak := watchHeap(t)
	began := heap()
	for name, h := range servers {
		for i := range 3 {
			tenant(t, c, namespace, fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(name, " ", "-")), i), h.kubeconfig("token: t"))
		}
	}
	neighbour := testkit.Namespace(t)
	took := reached(t, clusters, client.ObjectKeyFromObject(tenant(t, c, neighbour, "healthy", healthy(t))))
	require.Less(t, took, 5*usual+5*time.Second, "a neighbour's cluster is reached as ever")
	for name := range servers {
		if name != "silent" && name != "headers" {
			told(t, c, namespace, strings.ToLower(strings.ReplaceAll(name, " ", "-")), workload.AnswerRefusedReason, "")
		}
	}
	most := peak()
	t.Logf("heap before %d MiB, at most %d MiB; neighbour after %s, usually %s", began>>20, most>>20, took, usual)
	require.Less(t, most-began, 400<<20)
	require.True(t, connected(t, clusters, client.ObjectKey{Namespace: namespace, Name: "before"}))
}

// watchHeap follows the memory in use until the returned function is asked for the most there was.
func watchHeap(t *testing.T) (most func() int) {
	t.Helper()
	var peak atomic.Int64
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				peak.Store(max(peak.Load(), int64(stats.HeapAlloc)))
			}
		}
	}()
	return func() int { return int(peak.Load()) }
}

// Servers that hang hold up only themselves: 60 of them beside one that is well.
func TestClusters_hangingServersHoldUpNobody(t *testing.T) {
	c := testkit.Client(t, newScheme(t))
	hangs := newHostile(t, func(_ *hostile, _ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	clusters := watching(t, capi.Options{})
	usual := reached(t, clusters, client.ObjectKeyFromObject(tenant(t, c, testkit.Namespace(t), "before", healthy(t))))
	namespace := testkit.Namespace(t)
	for i := range 60 {
		tenant(t, c, namespace, fmt.Sprintf("hangs-%d", i), hangs.kubeconfig("token: t"))
	}
	took := reached(t, clusters, client.ObjectKeyFromObject(tenant(t, c, testkit.Namespace(t), "well", healthy(t))))
	t.Logf("reached after %s, usually %s", took, usual)
	require.Less(t, took, 5*usual+3*time.Second)
}

func connected(t *testing.T, clusters *workload.Clusters, cluster client.ObjectKey) bool {
	t.Helper()
	_, err := clusters.GetReader(t.Context(), cluster)
	return err == nil
}
