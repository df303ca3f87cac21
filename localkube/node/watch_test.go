package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/localkube/pki"
)

// nodesAPI serves the nodes of a cluster over TLS as an API server does: a
// list, then a watch that sends what happens.
type nodesAPI struct {
	mu      sync.Mutex
	list    []corev1.Node
	events  chan metav1.WatchEvent
	callers map[string]bool
}

func (a *nodesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.callers[r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.URL.Path+" "+r.URL.Query().Get("fieldSelector")] = true
	items := a.list
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	if r.URL.Query().Get("watch") == "" {
		_ = encoder.Encode(corev1.NodeList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: items,
		})
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" { // as a server that does not know this would say
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = encoder.Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
		return
	}
	flusher := w.(http.Flusher)
	flusher.Flush()
	for {
		select {
		case e := <-a.events:
			_ = encoder.Encode(e)
			flusher.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// say sends a change of a node to who watches.
func (a *nodesAPI) say(t *testing.T, kind string, node corev1.Node) {
	t.Helper()
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	raw, err := json.Marshal(node)
	require.NoError(t, err)
	select {
	case a.events <- metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}:
	case <-t.Context().Done():
	}
}

// withAPI gives a node such an API server, and the credentials for it.
func withAPI(t *testing.T, list ...corev1.Node) (*Node, *nodesAPI) {
	t.Helper()
	n := newNode(t)
	n.say = func(string, ...any) {}
	store, err := pki.Open(n.dir.Path("pki"))
	require.NoError(t, err)
	for name, subject := range map[string]pki.Subject{
		"kubelet": KubeletSubject("worker"), "kube-proxy": ProxySubject(),
		"serving": {Name: "s", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
	} {
		_, err := store.Issue(store.Cluster, name, subject)
		require.NoError(t, err)
	}
	pair := pki.PairAt(n.dir.Path("pki"), "serving")
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	api := &nodesAPI{list: list, events: make(chan metav1.WatchEvent), callers: map[string]bool{}}
	server := httptest.NewUnstartedServer(api)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: store.Cluster.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	n.cluster.APIServer, n.cluster.CA = server.URL, store.Cluster.CertPEM()
	require.NoError(t, n.writeKubeconfigs(t.Context()))
	return n, api
}

func named(pods string, version string, conditions ...corev1.NodeCondition) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", ResourceVersion: version},
		Spec:       corev1.NodeSpec{PodCIDR: pods}, Status: corev1.NodeStatus{Conditions: conditions},
	}
}

func ready(status corev1.ConditionStatus, when time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: "KubeletNotReady", Message: "no CNI", LastHeartbeatTime: metav1.NewTime(when)}
}

func TestFollowPodRange_waits_for_it(t *testing.T) {
	n, api := withAPI(t)
	done := make(chan error)
	go func() { done <- n.followPodRange(t.Context()) }()
	api.say(t, "ADDED", named("", "2"))
	require.NoFileExists(t, n.dir.Path("cni", "conf", "10-localkube.conflist"))
	api.say(t, "DELETED", named("198.19.9.0/24", "3"))
	api.say(t, "ADDED", named("198.19.1.0/24", "4"))
	require.NoError(t, <-done)
	raw, err := os.ReadFile(n.dir.Path("cni", "conf", "10-localkube.conflist"))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"subnet": "198.19.1.0/24"`)
	require.Equal(t, map[string]bool{"system:node:worker /api/v1/nodes metadata.name=worker": true}, api.callers, "a kubelet may see no other node")
}

func TestAwaitReady_believes_this_run_only(t *testing.T) {
	now := time.Now()
	n, api := withAPI(t, named("198.19.1.0/24", "1", ready(corev1.ConditionTrue, now.Add(-time.Hour))))
	n.started = now
	done := make(chan error)
	go func() { done <- n.awaitReady(t.Context()) }()
	api.say(t, "MODIFIED", named("198.19.1.0/24", "2", ready(corev1.ConditionFalse, now)))
	require.Empty(t, done)
	api.say(t, "MODIFIED", named("198.19.1.0/24", "3", ready(corev1.ConditionTrue, now.Add(time.Second))))
	require.NoError(t, <-done)
}

func TestAwaitNode_says_what_it_waited_for(t *testing.T) {
	boom := errors.New("containerd ended")
	for name, tc := range map[string]struct {
		list []corev1.Node
		want string
	}{
		"no node":        {nil, "the kubelet has not registered the node"},
		"node not ready": {[]corev1.Node{named("", "1", ready(corev1.ConditionFalse, time.Now()))}, "KubeletNotReady: no CNI"},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := withAPI(t, tc.list...)
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(300*time.Millisecond, func() { cancel(boom) })
			defer timer.Stop()
			n.started = time.Now()
			err := n.awaitReady(ctx)
			require.ErrorIs(t, err, boom)
			require.ErrorContains(t, err, "waiting for the node to be ready: containerd ended\n")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestStartRoutes_watches_all_nodes_as_kube_proxy(t *testing.T) {
	if !ownMachine(t) {
		return
	}
	n, api := withAPI(t, *nodeAt("one", "198.18.0.7", "198.19.7.0/24"))
	addLink(t, "wan", "198.18.0.2/16")
	require.NoError(t, n.startRoutes())
	t.Cleanup(n.routes)
	has := func(cidr string, want int) func() bool {
		return func() bool { return len(routesTo(t, cidr)) == want }
	}
	require.Eventually(t, has("198.19.7.0/24", 1), time.Minute, 10*time.Millisecond)
	api.say(t, "ADDED", *nodeAt("two", "198.18.0.8", "198.19.8.0/24"))
	require.Eventually(t, has("198.19.8.0/24", 1), time.Minute, 10*time.Millisecond)
	api.say(t, "DELETED", *nodeAt("one", "198.18.0.7", "198.19.7.0/24"))
	require.Eventually(t, has("198.19.7.0/24", 0), time.Minute, 10*time.Millisecond)
	require.Equal(t, map[string]bool{"system:kube-proxy /api/v1/nodes ": true}, api.callers)
}
