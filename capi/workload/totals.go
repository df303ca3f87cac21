package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Totals are sums over the Nodes of a workload cluster.
type Totals struct {
	// Nodes counts all Nodes, LinuxWorkers the Linux Nodes without a taint for servers.
	Nodes, LinuxWorkers int32
	// Capacity and Allocatable have cpu, memory and pods.
	Capacity, Allocatable corev1.ResourceList
	// Arch is the architecture of the Nodes, or MixedArch; empty if no Node reports a valid one.
	Arch string
}

// MixedArch stands for Nodes of several architectures.
const MixedArch = "mixed"

// plain matches the quantities that are kept. Exponents are rejected, because comparing 1e999999999
// with another quantity writes all its digits. The suffixes bound the size.
var plain = regexp.MustCompile(`^[0-9]{1,15}([.][0-9]{1,9})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`)

// arch matches the names of architectures that are kept.
var arch = regexp.MustCompile(`^[a-z0-9_]{1,16}$`)

// counted are the resources that are summed up, with the most that one Node can have. The memory of
// 2^15 Nodes fits into 63 bits.
var counted = []struct {
	name corev1.ResourceName
	most resource.Quantity
}{
	{corev1.ResourceCPU, resource.MustParse("100k")},
	{corev1.ResourceMemory, resource.MustParse("256Ti")},
	{corev1.ResourcePods, resource.MustParse("100k")},
}

// bounded keeps the cpu, memory and pods of a Node, which a root user on it chooses. A quantity that
// is negative, too long, too large or has an exponent is dropped. The kept ones are whole numbers,
// of thousandths for cpu.
func bounded(list corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for _, one := range counted {
		quantity, found := list[one.name]
		if !found {
			continue
		}
		// The text is short: the scanner bounds the digits of a response's numbers. It is parsed
		// again, because the methods of a quantity with an exponent may not return.
		text := quantity.String()
		if !plain.MatchString(text) {
			continue
		}
		parsed, err := resource.ParseQuantity(text)
		if err != nil || parsed.Cmp(one.most) > 0 {
			continue
		}
		if kept == nil {
			kept = corev1.ResourceList{}
		}
		kept[one.name] = quantityOf(one.name, amountOf(one.name, parsed))
	}
	return kept
}

// amountOf returns a quantity as a whole number, of thousandths for cpu.
func amountOf(name corev1.ResourceName, quantity resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// quantityOf is the inverse of amountOf.
func quantityOf(name corev1.ResourceName, amount int64) resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	case corev1.ResourceMemory:
		return *resource.NewQuantity(amount, resource.BinarySI)
	default:
		return *resource.NewQuantity(amount, resource.DecimalSI)
	}
}

// amounts are cpu in thousandths, memory and pods, in the order of counted.
type amounts [3]int64

func amountsOf(list corev1.ResourceList) amounts {
	var sum amounts
	for i, one := range counted {
		if quantity, found := list[one.name]; found {
			sum[i] = amountOf(one.name, quantity)
		}
	}
	return sum
}

// add adds amounts that are not negative. A sum that is too large stays at its maximum.
func (a *amounts) add(more amounts) {
	for i := range a {
		if a[i] > math.MaxInt64-more[i] {
			a[i] = math.MaxInt64
			continue
		}
		a[i] += more[i]
	}
}

func (a *amounts) list() corev1.ResourceList {
	list := corev1.ResourceList{}
	for i, one := range counted {
		list[one.name] = quantityOf(one.name, a[i])
	}
	return list
}

// share is the part of a Node in the totals.
type share struct {
	capacity, allocatable amounts
	linuxWorker           bool
	arch                  string
}

// shareOf expects a Node that strip has bounded.
func shareOf(node *corev1.Node) share {
	s := share{capacity: amountsOf(node.Status.Capacity), allocatable: amountsOf(node.Status.Allocatable),
		linuxWorker: node.Status.NodeInfo.OperatingSystem == "linux"}
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case "node-role.kubernetes.io/etcd", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master":
			s.linuxWorker = false
		}
	}
	if arch.MatchString(node.Status.NodeInfo.Architecture) {
		s.arch = node.Status.NodeInfo.Architecture
	}
	return s
}

// totalsOf sums up the Nodes.
func totalsOf(nodes []corev1.Node) *Totals {
	totals := &Totals{Nodes: int32(min(len(nodes), math.MaxInt32))}
	var capacity, allocatable amounts
	for i := range nodes {
		one := shareOf(&nodes[i])
		capacity.add(one.capacity)
		allocatable.add(one.allocatable)
		if one.linuxWorker {
			totals.LinuxWorkers++
		}
		switch {
		case one.arch == "" || one.arch == totals.Arch:
		case totals.Arch == "":
			totals.Arch = one.arch
		default:
			totals.Arch = MixedArch
		}
	}
	totals.Capacity, totals.Allocatable = capacity.list(), allocatable.list()
	return totals
}

// Totals returns sums over the Nodes of a cluster, or nil while the cluster cannot be reached. The
// callbacks given to OnTotals signal when to ask again.
func (c *Clusters) Totals(ctx context.Context, cluster client.ObjectKey) (*Totals, error) {
	api, nodes, err := c.nodes(ctx, cluster)
	if api == nil || err != nil {
		return nil, err
	}
	// After the read: the watch begins with all existing Nodes, so that none is missed.
	err = c.Watch(ctx, cluster, &totalsWatcher{notify: func() { c.notifyTotals(cluster) }})
	if err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
		return nil, fmt.Errorf("watching the Nodes of cluster %s: %w", cluster, err)
	}
	return totalsOf(nodes), nil
}

// OnTotals calls wake when the totals of a cluster for which Totals was called may have changed, and
// when the connection to a cluster opens or closes. wake must not block. A hostile cluster can cause
// any number of calls.
func (c *Clusters) OnTotals(wake func(cluster client.ObjectKey)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counting = append(c.counting, wake)
}

func (c *Clusters) notifyTotals(cluster client.ObjectKey) {
	c.mu.RLock()
	counting := c.counting
	c.mu.RUnlock()
	for _, wake := range counting {
		wake(cluster)
	}
}

// totalsWatcher is the watch of one cluster's Nodes for Totals.
type totalsWatcher struct{ notify func() }

var _ clustercache.Watcher = (*totalsWatcher)(nil)

// Name implements clustercache.Watcher.
func (*totalsWatcher) Name() string { return "drover-totals" }

// Object implements clustercache.Watcher.
func (*totalsWatcher) Object() client.Object { return &corev1.Node{} }

// Watch implements clustercache.Watcher. It does not wait for the informer, because the cluster
// cache is locked during the call.
func (w *totalsWatcher) Watch(informers cache.Cache) error {
	informer, err := informers.GetInformer(context.Background(), &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("getting the informer of Nodes: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.notify() },
		UpdateFunc: w.updated,
		DeleteFunc: func(any) { w.notify() },
	})
	if err != nil {
		return fmt.Errorf("listening for Nodes: %w", err)
	}
	return nil
}

// updated ignores changes that do not change the totals, such as heartbeats.
func (w *totalsWatcher) updated(before, after any) {
	was, wasNode := before.(*corev1.Node)
	is, isNode := after.(*corev1.Node)
	if wasNode && isNode && shareOf(was) == shareOf(is) {
		return
	}
	w.notify()
}
