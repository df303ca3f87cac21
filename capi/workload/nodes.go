package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// nodeWatch names our watch of a workload cluster's Nodes; the cluster cache has one of a name per connection.
const nodeWatch = "drover-nodes"

// OnNode has wake called when the Node of a CAPI Machine got its provider ID, and, with an empty machine, when there is news of a Node that
// may be anybody's, or the way into a cluster opened or closed, for a watch ends with its connection. wake must not block.
func (c *Clusters) OnNode(wake func(cluster client.ObjectKey, machine types.UID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, wake)
}

func (c *Clusters) tellNode(cluster client.ObjectKey, machine types.UID) {
	c.mu.RLock()
	listeners := c.listeners
	c.mu.RUnlock()
	for _, wake := range listeners {
		wake(cluster, machine)
	}
}

// nodeWatcher is one cluster's watch of Nodes, on the informer that Cluster API has of them anyway.
type nodeWatcher struct {
	cluster  client.ObjectKey
	clusters *Clusters
}

var _ clustercache.Watcher = (*nodeWatcher)(nil)

// Name implements clustercache.Watcher.
func (w *nodeWatcher) Name() string { return nodeWatch }

// Object implements clustercache.Watcher.
func (w *nodeWatcher) Object() client.Object { return &corev1.Node{} }

// Watch implements clustercache.Watcher. It does not wait for the informer: the cluster cache is locked meanwhile.
func (w *nodeWatcher) Watch(informers cache.Cache) error {
	informer, err := informers.GetInformer(context.Background(), &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("getting the informer of Nodes: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.tell(nil, obj) },
		UpdateFunc: w.tell,
	})
	if err != nil {
		return fmt.Errorf("listening for Nodes: %w", err)
	}
	return nil
}

// tell calls the listeners when a Node has become what machines look for.
func (w *nodeWatcher) tell(before, after any) {
	was, is := idOf(before), idOf(after)
	if is != was && (is.machine == "" || is.provider != "" || !is.waits) {
		w.clusters.tellNode(w.cluster, is.machine)
	}
}

// identity is what machines want to know of a Node.
type identity struct {
	machine                       types.UID
	provider, hostname, addresses string
	// waits tells that a cloud's controller is to give it its provider ID.
	waits bool
}

func idOf(obj any) identity {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return identity{}
	}
	return identity{machine: types.UID(node.Labels[rkev1.NodeMachineLabel]), provider: node.Spec.ProviderID, waits: awaitsCloud(node),
		hostname: node.Labels[corev1.LabelHostname], addresses: fmt.Sprint(node.Status.Addresses)}
}

const (
	// nodesPerPage and maxPages bound a list of Nodes.
	nodesPerPage, maxPages = 500, 100
)

// nodeLists lists Nodes in pages, and counts what client-go gathers of them before it is kept. A list as a stream of events, which client-go
// prefers (k8s.io/client-go/tools/cache/reflector.go, watchList), would be gathered without end.
type nodeLists struct {
	toolscache.ListerWatcher
	connection *connection
	pages, sum int
}

// IsWatchListSemanticsUnSupported is client-go's question whether to list and then watch.
func (l *nodeLists) IsWatchListSemanticsUnSupported() bool { return true }

// List implements toolscache.ListerWatcher. The answer is a page: a server gives no pages of what it has in memory, so the version is left out.
func (l *nodeLists) List(options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" {
		l.pages, l.sum = 0, 0
		options.ResourceVersion, options.ResourceVersionMatch, options.Limit = "", "", nodesPerPage
	}
	list, err := l.ListerWatcher.List(options) //nolint:staticcheck // the reflector has no other
	if err != nil {
		return nil, err
	}
	nodes, ok := list.(*corev1.NodeList)
	if !ok {
		return nil, fmt.Errorf("the list of Nodes is a %T", list)
	}
	l.pages++
	for i := range nodes.Items {
		strip(&nodes.Items[i])
		l.sum += heldSize(&nodes.Items[i])
	}
	if l.sum > heldByCluster || l.pages > maxPages {
		l.connection.fail(errHeld)
		return nil, errHeld
	}
	return nodes, nil
}

// strip takes off a Node what Cluster API does not look at: its images and who manages which field, which are most of it.
func strip(node *corev1.Node) { node.ManagedFields, node.Status.Images = nil, nil }
