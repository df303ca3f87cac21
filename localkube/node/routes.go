package node

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// followNodes routes to the pods of other nodes for as long as this process lives. kube-proxy's
// identity is taken, for a kubelet sees its own node only.
func (n *Node) followNodes(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", n.Files.Proxy)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.route(obj, netlink.RouteReplace) },
		UpdateFunc: func(_, obj any) { n.route(obj, netlink.RouteReplace) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			n.route(obj, netlink.RouteDel)
		},
	})
	if err != nil {
		return fmt.Errorf("following nodes: %w", err)
	}
	go informer.RunWithContext(ctx)
	return nil
}

// route does something about the route to a node's pods. Nodes are neighbours: the way is their
// address.
func (n *Node) route(obj any, do func(*netlink.Route) error) {
	node, ok := obj.(*corev1.Node)
	if !ok || node.Name == n.Name {
		return
	}
	route := routeTo(node)
	if route == nil {
		return
	}
	if err := do(route); err != nil {
		n.Say("routing to the pods of %s: %v", node.Name, err)
	}
}

// routeTo is nil as long as the node has no range or no address.
func routeTo(node *corev1.Node) *netlink.Route {
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return nil
	}
	for _, address := range node.Status.Addresses {
		if gateway := net.ParseIP(address.Address).To4(); address.Type == corev1.NodeInternalIP && gateway != nil {
			return &netlink.Route{Dst: pods, Gw: gateway, Protocol: routeProtocol}
		}
	}
	return nil
}
