package node

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// startRoutes keeps a route to the pods of every other node, by that node's
// address: the nodes of one cluster share a link.
func (n *Node) startRoutes() error {
	// kube-proxy's user may watch all nodes; the kubelet's sees its own only.
	client, err := n.client(ProxyName)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.routes = cancel
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.route(obj, netlink.RouteReplace) },
		UpdateFunc: func(_, obj any) { n.route(obj, netlink.RouteReplace) },
		DeleteFunc: func(obj any) { n.route(obj, netlink.RouteDel) },
	})
	if err != nil {
		cancel()
		return fmt.Errorf("watching nodes: %w", err)
	}
	factory.Start(ctx.Done())
	return nil
}

func (n *Node) route(obj any, apply func(*netlink.Route) error) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	node, ok := obj.(*corev1.Node)
	if !ok || node.Name == n.opts.Name {
		return
	}
	route := routeTo(node)
	if route == nil {
		return
	}
	if err := apply(route); err != nil {
		n.say("routing to pods of node %s: %v", node.Name, err)
	}
}

// routeTo is the route to a node's pods, nil while it is not known.
func routeTo(node *corev1.Node) *netlink.Route {
	_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return nil
	}
	for _, a := range node.Status.Addresses {
		if ip := net.ParseIP(a.Address); a.Type == corev1.NodeInternalIP && ip != nil {
			return &netlink.Route{Dst: pods, Gw: ip, Protocol: routeProtocol}
		}
	}
	return nil
}
