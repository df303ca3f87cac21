package workload

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

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

// newNodeInformer makes an informer that lists so.
func (n *connection) newNodeInformer(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(&nodeLists{ListerWatcher: lw, connection: n}, obj, resync, indexers)
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
