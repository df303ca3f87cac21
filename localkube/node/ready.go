package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/drover-project/drover/localkube/datadir"
)

// probeTimeout bounds the question whether a node is ready.
const probeTimeout = 5 * time.Second

// followPodRange waits for the range the controller manager gives this node
// and configures the pod network with it.
func (n *Node) followPodRange(ctx context.Context) error {
	node, err := n.awaitNode(ctx, func(node *corev1.Node) bool { return node.Spec.PodCIDR != "" })
	if err != nil {
		return fmt.Errorf("waiting for the node's pod range: %w", err)
	}
	return n.writeCNI(node.Spec.PodCIDR)
}

func (n *Node) awaitReady(ctx context.Context) error {
	// API times have whole seconds.
	since := n.started.Truncate(time.Second)
	if _, err := n.awaitNode(ctx, func(node *corev1.Node) bool { return isReady(node, since) }); err != nil {
		return fmt.Errorf("waiting for the node to be ready: %w", err)
	}
	n.say("node %s is ready at %s", n.opts.Name, n.address)
	return nil
}

// Probe asks the API server, as the kubelet of a data directory, whether its
// node is ready; nil is yes.
func Probe(ctx context.Context, dir datadir.Dir, name string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client, err := (&Node{dir: layout{dir}}).client(KubeletName)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("asking for node %s: %w", name, err)
	}
	if isReady(node, time.Time{}) {
		return nil
	}
	return fmt.Errorf("node %s is not ready: %w", name, cmp.Or(reasonNotReady(node), errors.New("its kubelet has not said anything")))
}

// isReady tells whether the kubelet has said so since a time: what is older was
// said before a restart.
func isReady(node *corev1.Node, since time.Time) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && !c.LastHeartbeatTime.Time.Before(since)
		}
	}
	return false
}

// awaitNode watches this machine's Node until it is as wanted.
func (n *Node) awaitNode(ctx context.Context, wanted func(*corev1.Node) bool) (*corev1.Node, error) {
	client, err := n.client(KubeletName)
	if err != nil {
		return nil, err
	}
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, n.opts.Name).String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return client.CoreV1().Nodes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.CoreV1().Nodes().Watch(ctx, o)
		},
	}
	var last *corev1.Node
	_, err = watchtools.UntilWithSync(ctx, source, &corev1.Node{}, nil, func(e watch.Event) (bool, error) {
		node, ok := e.Object.(*corev1.Node)
		if !ok || e.Type == watch.Deleted {
			return false, nil
		}
		last = node
		return wanted(node), nil
	})
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err, reasonNotReady(last))
	}
	return last, nil
}

func reasonNotReady(node *corev1.Node) error {
	if node == nil {
		return errors.New("the kubelet has not registered the node")
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	return nil
}
