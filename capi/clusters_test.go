package capi_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/testkit"
)

// call is one call of a listener.
type call struct {
	cluster client.ObjectKey
	machine types.UID
}

// heard are the calls, in their order.
type heard struct {
	mu    sync.Mutex
	calls []call
	more  chan struct{}
}

func (h *heard) wake(cluster client.ObjectKey, machine types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call{cluster, machine})
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// await waits until a call was made; it forgets it and gives those that were made before.
func (h *heard) await(t *testing.T, want call) (before []call) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		h.mu.Lock()
		for i, got := range h.calls {
			if got == want {
				before, h.calls = h.calls[:i], h.calls[i+1:]
				h.mu.Unlock()
				return before
			}
		}
		h.mu.Unlock()
		select {
		case <-h.more:
		case <-timeout.C:
			require.Fail(t, "not heard", "%v", want)
		}
	}
}

// remote is a workload cluster, which is the management cluster itself.
type remote struct {
	client   client.WithWatch
	key      client.ObjectKey
	clusters *workload.Clusters
	heard    *heard
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	w := &remote{client: testkit.Client(t, newScheme(t)), heard: &heard{more: make(chan struct{}, 1)}}
	w.key = client.ObjectKey{Namespace: testkit.Namespace(t), Name: "c1"}
	mgr, _ := newManager(t)
	var err error
	w.clusters, err = capi.Setup(t.Context(), mgr, capi.Options{})
	require.NoError(t, err)
	w.clusters.OnNode(w.heard.wake)
	run(t, mgr, mgr.GetCache())
	return w
}

// connect makes the Cluster and the kubeconfig with which it is reached, and waits until it is.
func (w *remote) connect(t *testing.T, kubeconfig string) {
	t.Helper()
	tenant(t, w.client, w.key.Namespace, w.key.Name, kubeconfig)
	w.heard.await(t, call{cluster: w.key})
}

func (w *remote) node(t *testing.T, name string, machine types.UID, id string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rkev1.NodeMachineLabel: string(machine)}}, Spec: corev1.NodeSpec{ProviderID: id}}
	require.NoError(t, w.client.Create(t.Context(), node))
	t.Cleanup(func() { _ = w.client.Delete(testContext(t), node) })
	return node
}

func (w *remote) providerID(t *testing.T, machine types.UID) string {
	t.Helper()
	id, err := w.clusters.ProviderID(t.Context(), w.key, workload.Server{Machine: machine})
	require.NoError(t, err)
	return id
}

func TestClusters_aNodeJoinsAndIsHeardOf(t *testing.T) {
	w := newRemote(t)
	require.Empty(t, w.providerID(t, "uid-1"), "there is no way into the cluster, which is no error")
	w.connect(t, healthy(t))

	require.Empty(t, w.providerID(t, "uid-1"), "and now it is watched")
	node := w.node(t, "joined", "uid-1", "")
	w.node(t, "not-ours", "", "acme://0")
	node.Spec.ProviderID = "acme://1"
	require.NoError(t, w.client.Update(t.Context(), node))
	for w.providerID(t, "uid-1") != "acme://1" { // it is heard of as it joins, and as it gets its ID
		w.heard.await(t, call{w.key, "uid-1"})
	}
	require.Empty(t, w.providerID(t, "uid-2"))

	w.node(t, "with-its-id-at-once", "uid-2", "acme://2")
	w.heard.await(t, call{w.key, "uid-2"})
	require.Equal(t, "acme://2", w.providerID(t, "uid-2"))

	// What a kubelet writes all the time is no news.
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, w.client.Status().Update(t.Context(), node))
	w.node(t, "last", "uid-3", "acme://3")
	require.NotContains(t, w.heard.await(t, call{w.key, "uid-3"}), call{w.key, "uid-1"})
}

// Many Nodes come in pages, and each is found; without what Cluster API does not look at.
func TestClusters_manyNodes(t *testing.T) {
	w := newRemote(t)
	const number = 1100 // three pages
	t.Cleanup(func() { require.NoError(t, w.client.DeleteAllOf(testContext(t), &corev1.Node{})) })
	for i := range number {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%04d", i), Labels: map[string]string{rkev1.NodeMachineLabel: fmt.Sprint("uid-", i)}},
			Spec: corev1.NodeSpec{ProviderID: fmt.Sprint("acme://", i)}}
		require.NoError(t, w.client.Create(t.Context(), node))
	}
	w.connect(t, healthy(t))
	for _, i := range []int{0, 499, 500, 1000, number - 1} {
		require.Equal(t, fmt.Sprint("acme://", i), w.providerID(t, types.UID(fmt.Sprint("uid-", i))))
	}
	require.Empty(t, w.providerID(t, "uid-late"))
	w.heard.await(t, call{w.key, "uid-0"})
}

// TestClusters_totals: the Nodes are counted, and a change of the totals is reported.
func TestClusters_totals(t *testing.T) {
	w := newRemote(t)
	changed := make(chan struct{}, 1)
	w.clusters.OnTotals(func(cluster client.ObjectKey) {
		if cluster != w.key {
			return // of another test
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	totals, err := w.clusters.Totals(t.Context(), w.key)
	require.NoError(t, err)
	require.Nil(t, totals, "the cluster is not reached")
	w.connect(t, healthy(t))
	await := func(want func(*workload.Totals) bool) {
		t.Helper()
		for {
			totals, err := w.clusters.Totals(t.Context(), w.key)
			require.NoError(t, err)
			if totals != nil && want(totals) {
				return
			}
			select {
			case <-changed:
			case <-time.After(patience):
				t.Fatalf("the totals stay %+v", totals)
			}
		}
	}
	cores := func(totals *workload.Totals) int64 { return totals.Capacity.Cpu().Value() }
	await(func(totals *workload.Totals) bool { return totals.Nodes == 0 })
	node := w.node(t, "counted", "", "acme://1")
	await(func(totals *workload.Totals) bool { return totals.Nodes == 1 && cores(totals) == 0 })
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), "example.test/gpu": resource.MustParse("1e9")}
	require.NoError(t, w.client.Status().Update(t.Context(), node))
	await(func(totals *workload.Totals) bool { return cores(totals) == 2 && len(totals.Capacity) == 3 })
	require.NoError(t, w.client.Delete(t.Context(), node))
	await(func(totals *workload.Totals) bool { return totals.Nodes == 0 })
}

// When the Cluster goes, so does the way into it.
func TestClusters_thatGo(t *testing.T) {
	w := newRemote(t)
	w.connect(t, healthy(t))
	w.node(t, "left", "uid-left", "acme://left")
	require.Empty(t, w.providerID(t, "uid-other"))
	require.NoError(t, w.client.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.key.Name}}))
	testkit.Eventually(t, patience, func() error {
		id, err := w.clusters.ProviderID(t.Context(), w.key, workload.Server{Machine: "uid-left"})
		if err == nil && id != "" {
			return errStillThere
		}
		return err
	})
}

// passage leads to the API server of the tests, and can be closed: connections through it end, and new ones are refused.
type passage struct {
	address, to string
	listener    net.Listener
	mu          sync.Mutex
	open        []net.Conn
}

func (p *passage) listen(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", p.address)
	require.NoError(t, err)
	p.listener, p.address = listener, listener.Addr().String()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.to)
			if err != nil {
				_ = from.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, from, to)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(from, to) }()
			go func() { _, _ = io.Copy(to, from) }()
		}
	}()
}

func (p *passage) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.open {
		_ = one.Close()
	}
	p.open = nil
}

// That a server refuses connections is known long before its connection is given up, which one that only restarts keeps.
func TestClusters_oneThatDoesNotAnswer(t *testing.T) {
	w := newRemote(t)
	passage := &passage{address: "127.0.0.1:0", to: strings.TrimPrefix(testkit.Config(t).Host, "https://")}
	passage.listen(t)
	t.Cleanup(passage.close)
	w.connect(t, strings.ReplaceAll(healthy(t), passage.to, passage.address))
	require.True(t, w.clusters.Reaches(w.key))
	connection, err := w.clusters.GetClient(t.Context(), w.key)
	require.NoError(t, err)

	passage.close()
	since := time.Now()
	w.heard.await(t, call{cluster: w.key})
	require.False(t, w.clusters.Reaches(w.key))
	require.Less(t, time.Since(since), 20*time.Second, "sooner than by the probes that come anyway")

	passage.listen(t)
	w.heard.await(t, call{cluster: w.key})
	require.True(t, w.clusters.Reaches(w.key))
	same, err := w.clusters.GetClient(t.Context(), w.key)
	require.NoError(t, err)
	require.Same(t, connection, same)
}

// The Node of a server is found by its addresses and name when nobody has labelled it; it gets the label, and a provider ID where none is
// to come.
func TestClusters_aNodeWithoutOurLabel(t *testing.T) {
	w := newRemote(t)
	w.connect(t, healthy(t))
	find := func(server workload.Server) string {
		t.Helper()
		id, err := w.clusters.ProviderID(t.Context(), w.key, server)
		require.NoError(t, err)
		return id
	}
	at := func(name, address, id string, taints ...corev1.Taint) *corev1.Node {
		t.Helper()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id, Taints: taints}}
		require.NoError(t, w.client.Create(t.Context(), node))
		t.Cleanup(func() { _ = w.client.Delete(testContext(t), node) })
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		require.NoError(t, w.client.Status().Update(t.Context(), node))
		return node
	}
	first := workload.Server{Machine: "uid-1", Name: "pool-1", Addresses: []string{"203.0.113.1", "10.0.0.1"}, ProviderID: "drover://team/pool-1"}
	eventually := func(server workload.Server, want string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			id, err := w.clusters.ProviderID(t.Context(), w.key, server)
			if err == nil && id != want {
				return fmt.Errorf("the provider ID is %q", id)
			}
			return err
		})
	}
	require.Empty(t, find(first))
	own := at("renamed", "10.0.0.1", "k3s://renamed")
	eventually(first, "k3s://renamed") // its own stays
	require.Equal(t, "uid-1", testkit.ExpectExists(t, w.client, own).Labels[rkev1.NodeMachineLabel])
	eventually(workload.Server{Machine: "uid-2", Name: "renamed", Addresses: []string{"10.0.0.1"}}, "") // it is another machine's

	none := at("pool-3", "10.0.0.3", "")
	eventually(workload.Server{Machine: "uid-3", Name: "pool-3", ProviderID: "drover://team/pool-3"}, "drover://team/pool-3")
	require.Equal(t, "drover://team/pool-3", testkit.ExpectExists(t, w.client, none).Spec.ProviderID)

	at("pool-4", "10.0.0.4", "", corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule})
	at("one", "10.0.0.5", "")
	at("other", "10.0.0.5", "")
	at("last", "10.0.0.6", "k3s://last")
	eventually(workload.Server{Machine: "uid-6", Name: "pool-6", Addresses: []string{"10.0.0.6"}}, "k3s://last") // the others before it are known too
	require.Empty(t, find(workload.Server{Machine: "uid-4", Name: "pool-4", ProviderID: "drover://team/pool-4"}), "a cloud's controller gives it one")
	require.Empty(t, find(workload.Server{Machine: "uid-5", Name: "one", Addresses: []string{"10.0.0.5"}, ProviderID: "drover://team/one"}), "two have its address")
}

// A Node gets its machine's taints, and loses those of them that are not wanted any more; taints of others stay, whatever happens to ours.
func TestClusters_taintsOfANode(t *testing.T) {
	w := newRemote(t)
	w.connect(t, healthy(t))
	node := w.node(t, "tainted", "id", "acme://tainted")
	node.Spec.Taints = []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}, {Key: "team", Value: "shop", Effect: corev1.TaintEffectNoSchedule}}
	require.NoError(t, w.client.Update(t.Context(), node))
	eventually := func(wanted []corev1.Taint, want ...string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error { // the cache of Nodes is behind
			if err := w.clusters.KeepNode(t.Context(), w.key, "tainted", nil, wanted); err != nil {
				return err
			}
			var got []string
			for _, taint := range testkit.ExpectExists(t, w.client, node).Spec.Taints {
				got = append(got, taint.ToString())
			}
			if !slices.Equal(want, got) {
				return fmt.Errorf("its taints are %v", got)
			}
			return nil
		})
	}
	team := corev1.Taint{Key: "team", Value: "shop", Effect: corev1.TaintEffectNoSchedule} // as the kubelet registered it
	eventually([]corev1.Taint{team}, "theirs:NoSchedule", "team=shop:NoSchedule")
	team.Value = "web"
	gpu := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoExecute}
	eventually([]corev1.Taint{team, gpu}, "theirs:NoSchedule", "team=web:NoSchedule", "gpu:NoExecute")
	version := node.ResourceVersion
	eventually([]corev1.Taint{team, gpu}, "theirs:NoSchedule", "team=web:NoSchedule", "gpu:NoExecute")
	require.Equal(t, version, node.ResourceVersion)
	eventually(nil, "theirs:NoSchedule")
}

// Nodes that are picked go when no kubelet reports them, and are returned until then.
func TestClusters_forgetNodes(t *testing.T) {
	w := newRemote(t)
	own := func(node *corev1.Node) bool { return node.Labels[rkev1.NodeMachineLabel] == "id" }
	stay, err := w.clusters.ForgetNodes(t.Context(), w.key, own)
	require.NoError(t, err)
	require.Empty(t, stay, "there is no way yet")
	w.connect(t, healthy(t))
	node, other := w.node(t, "earlier", "id", "acme://1"), w.node(t, "unpicked", "other", "acme://2")
	reports := func(node *corev1.Node, status corev1.ConditionStatus) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		require.NoError(t, w.client.Status().Update(t.Context(), node))
	}
	eventually := func(want int, gone bool) {
		t.Helper()
		testkit.Eventually(t, patience, func() error { // the cache of Nodes is behind
			stay, err := w.clusters.ForgetNodes(t.Context(), w.key, own)
			isGone := apierrors.IsNotFound(w.client.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{}))
			if err == nil && (len(stay) != want || isGone != gone) {
				return fmt.Errorf("%d stay, gone is %t", len(stay), isGone)
			}
			return err
		})
	}
	reports(other, corev1.ConditionUnknown)
	reports(node, corev1.ConditionFalse)
	eventually(1, false)
	reports(node, corev1.ConditionUnknown)
	eventually(0, true)
	testkit.ExpectExists(t, w.client, other)
}

// A Node gets what its kubelet must not set, and loses of it what is not wanted any more; what others have set stays.
func TestClusters_labelsOfANode(t *testing.T) {
	w := newRemote(t)
	label := func(labels map[string]string) error {
		return w.clusters.KeepNode(t.Context(), w.key, "labelled", labels, nil)
	}
	require.NoError(t, label(map[string]string{"a": "b"})) // there is no way yet
	w.connect(t, healthy(t))
	require.NoError(t, label(map[string]string{"a": "b"})) // there is no Node yet
	node := w.node(t, "labelled", "id", "acme://labelled")
	node.Labels["team"], node.Labels["gone"], node.Labels["theirs"] = "shop", "soon", "" // as its kubelet registers it
	require.NoError(t, w.client.Update(t.Context(), node))
	eventually := func(labels, want map[string]string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error { // the cache of Nodes is behind
			if err := label(labels); err != nil {
				return err
			}
			got := testkit.ExpectExists(t, w.client, node).Labels
			if !maps.Equal(want, got) {
				return fmt.Errorf("its labels are %v", got)
			}
			return nil
		})
	}
	eventually(map[string]string{"team": "shop", "gone": "soon", "node-role.kubernetes.io/worker": "true"},
		map[string]string{"team": "shop", "gone": "soon", "node-role.kubernetes.io/worker": "true", "theirs": "", rkev1.NodeMachineLabel: "id"})
	eventually(map[string]string{"team": "web"}, map[string]string{"team": "web", "theirs": "", rkev1.NodeMachineLabel: "id"})
	version := node.ResourceVersion
	eventually(map[string]string{"team": "web"}, map[string]string{"team": "web", "theirs": "", rkev1.NodeMachineLabel: "id"})
	require.Equal(t, version, node.ResourceVersion)
	eventually(nil, map[string]string{"theirs": "", rkev1.NodeMachineLabel: "id"})
}
