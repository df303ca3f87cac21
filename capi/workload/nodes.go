package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// nodeWatch names our watch of a workload cluster's Nodes; the cluster cache has one watch of a
// name per connection.
const nodeWatch = "drover-nodes"

// OnNode calls wake when the Node of a CAPI Machine gets its provider ID. It calls it with an empty
// machine when a Node changes that could belong to any machine, or when the connection to a cluster
// opens or closes, because a watch ends with its connection. wake must not block.
func (c *Clusters) OnNode(wake func(cluster client.ObjectKey, machine types.UID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, wake)
}

func (c *Clusters) notifyNode(cluster client.ObjectKey, machine types.UID) {
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

// Watch implements clustercache.Watcher. It does not wait for the informer, because the cluster
// cache is locked during the call.
func (w *nodeWatcher) Watch(informers cache.Cache) error {
	informer, err := informers.GetInformer(context.Background(), &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("getting the informer of Nodes: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.notify(nil, obj) },
		UpdateFunc: w.notify,
	})
	if err != nil {
		return fmt.Errorf("listening for Nodes: %w", err)
	}
	return nil
}

// notify calls the listeners when a change of a Node concerns machines.
func (w *nodeWatcher) notify(before, after any) {
	was, is := idOf(before), idOf(after)
	if is != was && (is.machine == "" || is.provider != "" || !is.waits) {
		w.clusters.notifyNode(w.cluster, is.machine)
	}
}

// identity holds the facts about a Node that concern machines.
type identity struct {
	machine                       types.UID
	provider, hostname, addresses string
	// waits is true if a cloud's controller will set its provider ID.
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
	nodesPerPage, maxPages = 100, 200
)

// nodeLists lists Nodes in pages, and counts what client-go has collected before it is kept.
// client-go prefers a list as a stream of events (k8s.io/client-go/tools/cache/reflector.go,
// watchList), which would be collected without a bound.
type nodeLists struct {
	toolscache.ListerWatcher
	connection *connection
	pages, sum int
}

// IsWatchListSemanticsUnSupported is client-go's question whether to list and then watch.
func (l *nodeLists) IsWatchListSemanticsUnSupported() bool { return true }

// List implements toolscache.ListerWatcher. It requests a page without a version, because a server
// does not split lists from its memory into pages.
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
		return nil, fmt.Errorf("the list of Nodes has the type %T", list)
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

// strip drops the fields of a Node that no controller reads: its images and field owners, which are
// most of it, and the quantities that bounded does not keep.
func strip(node *corev1.Node) {
	node.ManagedFields, node.Status.Images = nil, nil
	node.Status.Capacity, node.Status.Allocatable = bounded(node.Status.Capacity), bounded(node.Status.Allocatable)
}

// Server holds the facts about a CAPI Machine's server by which its Node is found.
type Server struct {
	// Machine is the CAPI Machine's UID.
	Machine types.UID
	// Name and Addresses of the server.
	Name      string
	Addresses []string
	// ProviderID is set on a Node that has none, unless its kubelet waits for a cloud controller to
	// set it.
	ProviderID string
}

// ProviderID returns the provider ID of a server's Node under a foreign bootstrap provider (under
// ours, the plan gives the Node its ID). The Node is the one with the CAPI Machine's UID in its
// label rke.cattle.io/machine, else the only one with an address of the server, else the one with
// its name. ProviderID sets that label, and a provider ID if the Node has none. It returns an empty
// string while the cluster cannot be reached or has no such Node; the callbacks given to OnNode
// then signal when to ask again.
func (c *Clusters) ProviderID(ctx context.Context, cluster client.ObjectKey, server Server) (string, error) {
	api, nodes, err := c.nodes(ctx, cluster)
	if api == nil || err != nil {
		return "", err
	}
	found := server.node(nodes)
	if found == nil || found.Spec.ProviderID == "" && (server.ProviderID == "" || awaitsCloud(found)) {
		// After the read: the watch begins with all existing Nodes, so that none is missed.
		err := c.Watch(ctx, cluster, &nodeWatcher{cluster: cluster, clusters: c})
		if err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
			return "", fmt.Errorf("watching the Nodes of cluster %s: %w", cluster, err)
		}
		return "", nil
	}
	node := found.DeepCopy()
	metav1.SetMetaDataLabel(&node.ObjectMeta, rkev1.NodeMachineLabel, string(server.Machine))
	node.Spec.ProviderID = cmp.Or(node.Spec.ProviderID, server.ProviderID)
	if node.Spec.ProviderID == found.Spec.ProviderID && node.Labels[rkev1.NodeMachineLabel] == found.Labels[rkev1.NodeMachineLabel] {
		return node.Spec.ProviderID, nil
	}
	if err := api.Patch(ctx, node, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("labelling the Node %s of cluster %s: %w", found.Name, cluster, err)
	}
	return node.Spec.ProviderID, nil
}

// nodes returns all Nodes of a cluster, which must not be changed, and its API, which is nil
// without a connection.
func (c *Clusters) nodes(ctx context.Context, cluster client.ObjectKey) (client.Client, []corev1.Node, error) {
	reached, err := c.connected(cluster)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // the way is not there yet
	}
	var list corev1.NodeList
	if err := reached.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the Nodes of cluster %s: %w", cluster, err)
	}
	return reached.client, list.Items, nil
}

// node returns the server's Node, or nil if none or several match.
func (s Server) node(nodes []corev1.Node) *corev1.Node {
	var named *corev1.Node
	var addressed []*corev1.Node
	for i := range nodes {
		node := &nodes[i]
		if owner := node.Labels[rkev1.NodeMachineLabel]; owner == string(s.Machine) {
			return node
		} else if owner != "" {
			continue
		}
		if node.Name == s.Name || node.Labels[corev1.LabelHostname] == s.Name {
			named = node
		}
		if slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
			return a.Type != corev1.NodeHostName && a.Address != "" && slices.Contains(s.Addresses, a.Address)
		}) {
			addressed = append(addressed, node)
		}
	}
	switch {
	case len(addressed) == 1:
		return addressed[0]
	case len(addressed) > 1 || s.Name == "":
		return nil
	}
	return named
}

// awaitsCloud reports whether a cloud's own controller is to give a Node its provider ID.
func awaitsCloud(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" })
}

const (
	// nodeOwner is the field manager of the manager's fields in a Node.
	nodeOwner = "drover-nodes"
	// labelsAnnotation and taintsAnnotation on a Node name the labels, and the taints by key and
	// effect, that the manager has set. KeepNode removes the unwanted ones.
	labelsAnnotation = "drover.cattle.io/labels"
	taintsAnnotation = "drover.cattle.io/taints"
)

// KeepNode sets a machine's labels and taints on its Node: those that its kubelet must not set, and
// those that a user edited after the kubelet had registered the Node. It keeps other labels and
// taints. It does nothing while the cluster cannot be reached or has no such Node.
func (c *Clusters) KeepNode(ctx context.Context, cluster client.ObjectKey, name string, labels map[string]string, taints []corev1.Taint) error {
	reached, err := c.connected(cluster)
	if err != nil {
		return nil //nolint:nilerr // there is no way yet
	}
	api := reached.client
	node := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	for key := range strings.SplitSeq(node.Annotations[labelsAnnotation], ",") {
		delete(node.Labels, key) // also where the kubelet has set it, at its registration
	}
	for key, value := range labels {
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, labelsAnnotation, strings.Join(slices.Sorted(maps.Keys(labels)), ","))
	named := ""
	node.Spec.Taints, named = merge(node.Spec.Taints, taints, strings.Split(node.Annotations[taintsAnnotation], ","))
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, taintsAnnotation, named)
	if equality.Semantic.DeepEqual(before, node) {
		return nil
	}
	// The taints are one field to the API server: a concurrent change by another client is a
	// conflict, and is retried.
	err = api.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(nodeOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling and tainting the Node %s of cluster %s: %w", name, cluster, err)
	}
	return nil
}

// merge adds the wanted taints to the existing ones, and removes our unwanted taints.
func merge(there, wanted []corev1.Taint, ours []string) (merged []corev1.Taint, named string) {
	var names []string
	for _, taint := range wanted {
		names = append(names, nameOf(taint))
	}
	for _, taint := range there {
		name := nameOf(taint)
		at := slices.Index(names, name)
		switch {
		case at >= 0:
			taint.Value = wanted[at].Value // and the time since when it has it stays
			merged = append(merged, taint)
		case !slices.Contains(ours, name):
			merged = append(merged, taint)
		}
	}
	for _, taint := range wanted {
		if !slices.ContainsFunc(merged, func(has corev1.Taint) bool { return nameOf(has) == nameOf(taint) }) {
			merged = append(merged, taint)
		}
	}
	slices.Sort(names)
	return merged, strings.Join(slices.Compact(names), ",")
}

// nameOf returns the identity of a taint on a Node.
func nameOf(taint corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }
