package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxRefusals is how many calls in a row may fail by our limits before a connection is given up.
const maxRefusals = 3

// controllerName goes into the user agent with which workload clusters are asked.
const controllerName = "drover-cluster-api"

// errEnded is the cause of a connection's end without an error.
var errEnded = errors.New("the connection is not needed any more")

// connection is Cluster API's access to one workload cluster: its Nodes from memory, other objects
// by live requests.
type connection struct {
	config  *rest.Config
	dialer  *dialer
	client  client.Client
	live    client.Client
	cache   cache.Cache
	opened  time.Time
	ctx     context.Context //nolint:containedctx // ends with the connection
	cancel  context.CancelCauseFunc
	server  rest.Interface // for probes
	hangUp  func()         // the next call dials again
	close   func()
	holding *holding

	refusals atomic.Int32
	wake     func()
	recheck  func()

	mu      sync.Mutex
	watches sets.Set[string]
}

// open connects to the server that config names, and starts to read its Nodes. When the connection
// fails, the Cluster of this key is reconciled.
func (c *Clusters) open(ctx context.Context, tenant *tenant, config *rest.Config, key client.ObjectKey) (*connection, error) {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS, config.Burst = remote.DefaultClusterAPIUserAgent(controllerName), workloadQPS, workloadBurst
	config.WarningHandler = rest.NoWarnings{}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	dialer, err := newDialer(config, func(ctx context.Context) []string { return c.servers(ctx, key) }, func() { c.wake(key) })
	if err != nil {
		return nil, err
	}
	transport := newTransport(dialer)
	held := tenant.holding()
	made := &connection{config: config, dialer: dialer, opened: time.Now(), holding: held, wake: func() { c.wake(key) }, recheck: func() { c.recheck(key) }, watches: sets.New[string]()}
	made.ctx, made.cancel = context.WithCancelCause(c.base)
	made.hangUp = transport.CloseIdleConnections
	made.close = func() {
		held.end()
		made.hangUp()
	}
	if err := made.connect(ctx, c, tenant, transport); err != nil {
		made.end(err)
		return nil, err
	}
	return made, nil
}

func (n *connection) connect(ctx context.Context, c *Clusters, tenant *tenant, transport *http.Transport) error {
	probes, err := limited{tenant: tenant, answer: maxHeader, time: callTime}.httpClient(n.config, transport)
	if err != nil {
		return err
	}
	calls, err := limited{tenant: tenant, pages: tenant.pages, answer: maxAnswer, time: callTime, ended: n.called, turn: func(ctx context.Context) (func(), bool) {
		return tenant.acquire(ctx, tenant.calls, callWait)
	}}.httpClient(n.config, transport)
	if err != nil {
		return err
	}
	listed := func(err error) {
		switch {
		case errors.Is(err, errAnswer):
			n.fail(err) // the cache would ask again and again
		case err != nil && n.failure() == nil:
			n.recheck()
		}
	}
	lists, err := limited{tenant: tenant, answer: maxList, time: listTime, ended: listed, turn: func(ctx context.Context) (func(), bool) {
		return tenant.acquire(ctx, tenant.lists, listTime)
	}}.httpClient(n.config, transport)
	if err != nil {
		return err
	}
	if n.server, err = rawClient(n.config, probes); err != nil {
		return err
	}
	if err := n.probe(ctx); err != nil {
		return err
	}
	discovery, err := rawClient(n.config, calls)
	if err != nil {
		return err
	}
	mapper := &mapper{RESTMapper: meta.NewDefaultRESTMapper(nil), server: discovery, known: map[schema.GroupVersionKind]*meta.RESTMapping{}}
	if n.live, err = client.New(n.config, client.Options{Scheme: c.scheme, Mapper: mapper, HTTPClient: calls}); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	n.cache, err = cache.New(n.config, cache.Options{HTTPClient: lists, Scheme: c.scheme, Mapper: mapper, DefaultTransform: n.keep, NewInformer: func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(&nodeLists{ListerWatcher: lw, connection: n}, obj, resync, indexers)
	}})
	if err != nil {
		return fmt.Errorf("creating a cache: %w", err)
	}
	index := clustercache.NodeProviderIDIndex
	if err := n.cache.IndexField(ctx, index.Object, index.Field, index.ExtractValue); err != nil {
		return fmt.Errorf("adding the index of provider IDs: %w", err)
	}
	n.client = &nodesCached{Client: n.live, nodes: n.cache}
	go func() {
		if err := n.cache.Start(n.ctx); err != nil {
			n.fail(err)
		}
	}()
	return nil
}

// rawClient is for callers that read the bytes of a response themselves.
func rawClient(config *rest.Config, httpClient *http.Client) (rest.Interface, error) {
	raw := rest.CopyConfig(config)
	raw.NegotiatedSerializer = serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{
		Serializer: runtime.NoopEncoder{Decoder: clientgoscheme.Codecs.UniversalDecoder()}})
	made, err := rest.UnversionedRESTClientForConfigAndClient(raw, httpClient)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return made, nil
}

// probe checks whether the server answers. It tries once, because the caller counts failures.
func (n *connection) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return n.server.Get().AbsPath("/").MaxRetries(0).Do(ctx).Error()
}

// keep is called with each object before it is kept in memory.
func (n *connection) keep(in any) (any, error) {
	if _, gone := in.(toolscache.DeletedFinalStateUnknown); gone {
		return in, nil
	}
	node, ok := in.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("the cache of Nodes received a %T", in)
	}
	strip(node)
	if err := n.holding.hold(node.Name, heldSize(node)); err != nil {
		n.fail(err)
		*node = corev1.Node{} // client-go logs objects that were not kept
		return nil, err
	}
	return node, nil
}

// heldSize is the approximate memory of a Node with its content.
func heldSize(node *corev1.Node) int {
	const empty = 1 << 10
	return empty + node.Size()
}

// called hears how each call ended.
func (n *connection) called(err error) {
	switch {
	case err == nil:
		n.refusals.Store(0)
	case (errors.Is(err, errAnswer) || errors.Is(err, errLate)) && n.refusals.Add(1) >= maxRefusals:
		n.fail(err)
	}
}

// fail ends a connection because of an error.
func (n *connection) fail(err error) {
	if n.failure() == nil {
		n.cancel(err)
		n.wake()
	}
}

// failure is why the connection has ended, if it has.
func (n *connection) failure() error { return context.Cause(n.ctx) }

func (n *connection) end(err error) {
	n.cancel(err)
	n.close()
}

// nodesCached reads Nodes from memory and other objects live: Cluster API rarely reads other kinds,
// and a hostile server could fill a cache of a kind that a ClusterResourceSet names.
type nodesCached struct {
	client.Client
	nodes client.Reader
}

var _ client.Client = (*nodesCached)(nil)

// Get implements client.Reader.
func (c *nodesCached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.Node); ok {
		return c.nodes.Get(ctx, key, obj, opts...)
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c *nodesCached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.NodeList); ok {
		return c.nodes.List(ctx, list, opts...)
	}
	return c.Client.List(ctx, list, opts...)
}

// maxMappings is how many kinds of one workload cluster are remembered.
const maxMappings = 256

// mapper finds the resource of a kind by asking the workload cluster for that kind's version alone.
// It keeps only its result, a few hundred bytes each: client-go's discovery would keep megabytes of
// a hostile server's responses.
type mapper struct {
	meta.RESTMapper // it has no mappings; it serves methods that Cluster API does not call
	server          rest.Interface

	mu    sync.Mutex
	known map[schema.GroupVersionKind]*meta.RESTMapping
}

// RESTMapping implements meta.RESTMapper for callers that name a version.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	for _, version := range versions {
		found, err := m.mapping(kind.WithVersion(version))
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
}

// RESTMappings implements meta.RESTMapper.
func (m *mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	found, err := m.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}
	return []*meta.RESTMapping{found}, nil
}

func (m *mapper) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m.mu.Lock()
	found, ok := m.known[gvk]
	m.mu.Unlock()
	if ok {
		return found, nil
	}
	root := path.Join("/apis", gvk.Group, gvk.Version)
	if gvk.Group == "" {
		root = path.Join("/api", gvk.Version)
	}
	content, err := m.server.Get().AbsPath(root).DoRaw(context.Background()) // bounded in time by the transport
	if err != nil {
		return nil, fmt.Errorf("discovering the kinds of %s: %w", gvk.GroupVersion(), err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("reading the kinds of %s: %w", gvk.GroupVersion(), errAnswer)
	}
	at := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") })
	if at < 0 {
		return nil, nil
	}
	resource := list.APIResources[at]
	scope := map[bool]meta.RESTScope{true: meta.RESTScopeNamespace, false: meta.RESTScopeRoot}[resource.Namespaced]
	found = &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(strings.Clone(resource.Name)), GroupVersionKind: gvk, Scope: scope}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxMappings {
		clear(m.known)
	}
	m.known[gvk] = found
	return found, nil
}
