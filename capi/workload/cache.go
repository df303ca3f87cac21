// Package workload connects to workload clusters with the kubeconfig Secrets that Cluster API
// keeps. It limits the content of such a kubeconfig and the responses of the server behind it
// (decision 0010).
//
// It reads CAPI Clusters, Secrets <cluster>-kubeconfig, and the Nodes of workload clusters. It
// writes the condition KubeconfigAccepted and events on Clusters, and labels, taints and a provider
// ID on Nodes.
package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/capi/kubeconfig"
)

const (
	// clusterWorkers bounds the workload clusters that are contacted or probed at a time; one
	// namespace gets maxConnects of them.
	clusterWorkers = 64
	// probeInterval and maxProbeFailures are Cluster API's: k8s.io controllers/clustercache,
	// buildClusterAccessorConfig.
	probeInterval    = 10 * time.Second
	maxProbeFailures = 5
	// nextLook is the pause after a failed probe. After notAnswering failures in a row a cluster
	// counts as unreachable: each change in place restarts k3s or RKE2, which is usually back
	// within these nine seconds. Its connection is kept until maxProbeFailures.
	nextLook, notAnswering = 3 * time.Second, 4
	// syncStep is how long a worker waits for the Nodes of a new connection before it continues
	// with other work; syncTime bounds the loading of the Nodes.
	syncStep, syncTime = 2 * time.Second, time.Minute
	// minRetry and maxRetry bound the time until a cluster is contacted again; steady is how long a
	// connection must live before earlier failures are forgotten.
	minRetry, maxRetry, steady = 5 * time.Second, 5 * time.Minute, 10 * time.Minute
	// workloadQPS and workloadBurst bound the calls to one workload cluster.
	workloadQPS, workloadBurst = 20, 30
)

// Clusters connects to workload clusters: it is Cluster API's ClusterCache with limits on a user's
// kubeconfig and on the responses of the server behind it. See docs/decisions/0010.
type Clusters struct {
	client   client.Client
	secrets  client.Reader
	scheme   *runtime.Scheme
	recorder events.EventRecorder
	filter   string
	limits   *limits
	base     context.Context //nolint:containedctx // all connections end with the manager

	mu        sync.RWMutex
	remotes   map[client.ObjectKey]*remoteCluster
	queue     workqueue.TypedRateLimitingInterface[ctrl.Request]
	sources   []*clusterSource
	listeners []func(cluster client.ObjectKey, machine types.UID)
	counting  []func(cluster client.ObjectKey)
}

var _ clustercache.ClusterCache = (*Clusters)(nil)

// remoteCluster is the state of one Cluster's API server. One worker at a time changes it.
type remoteCluster struct {
	mu sync.RWMutex
	// open is the present connection; it is used once its Nodes are loaded.
	open   *connection
	isUsed bool
	health clustercache.HealthCheckingState
	// kubeconfig is the last content of the Secret; changed is true if the Secret may have changed
	// since.
	kubeconfig *rest.Config
	changed    atomic.Bool
	// proxied is whether the manager has a proxy for the kubeconfig's address.
	proxied atomic.Bool
	// failures counts connections that failed in a row; reported is the error that users already
	// see.
	failures int
	reported error
	// refused is why its answers were not read the last time.
	refused atomic.Pointer[string]
	// through is the server by which the cluster was reached at the last notification of the
	// listeners.
	through string
	last    time.Time
	next    time.Time
}

// New adds the controller that keeps connections to the workload clusters of the Clusters with the
// label cluster.x-k8s.io/watch-filter of the given value, or of all Clusters. The manager must not
// be started yet.
func New(ctx context.Context, mgr manager.Manager, filter string) (*Clusters, error) {
	c := &Clusters{client: mgr.GetClient(), secrets: mgr.GetAPIReader(), scheme: mgr.GetScheme(), filter: filter,
		recorder: mgr.GetEventRecorder("workload-cluster"), limits: newLimits(), base: context.WithoutCancel(ctx), remotes: map[client.ObjectKey]*remoteCluster{}}
	var cancel context.CancelCauseFunc
	c.base, cancel = context.WithCancelCause(c.base)
	ends := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		cancel(errEnded)
		return nil
	})
	if err := mgr.Add(ends); err != nil {
		return nil, fmt.Errorf("adding the cleanup of connections: %w", err)
	}
	made, err := controller.New("clustercache", mgr, controller.Options{Reconciler: c, MaxConcurrentReconciles: clusterWorkers})
	if err != nil {
		return nil, fmt.Errorf("adding the controller of connections: %w", err)
	}
	secrets := &metav1.PartialObjectMetadata{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	// It reconciles a Cluster again, but not more often than a first contact may be made.
	kubeconfigChanged := func(_ context.Context, obj client.Object) []ctrl.Request {
		name, is := strings.CutSuffix(obj.GetName(), "-"+string(secret.Kubeconfig))
		key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}
		known := c.find(key)
		if !is || known == nil {
			return nil
		}
		known.changed.Store(true)
		return []ctrl.Request{{NamespacedName: key}}
	}
	return c, errors.Join(
		made.Watch(source.Kind[client.Object](mgr.GetCache(), &clusterv1.Cluster{}, &handler.EnqueueRequestForObject{})),
		made.Watch(source.Kind[client.Object](mgr.GetCache(), secrets, handler.EnqueueRequestsFromMapFunc(kubeconfigChanged))),
		made.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.queue = queue
			return nil
		})),
	)
}

// Reconcile connects to a Cluster's API server, or probes an existing connection.
func (c *Clusters) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	key := request.NamespacedName
	cluster := &clusterv1.Cluster{}
	err := c.client.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) || (err == nil && c.filter != "" && cluster.Labels[clusterv1.WatchLabel] != c.filter) {
		c.forget(key)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	if done := cluster.Status.Initialization.InfrastructureProvisioned; done == nil || !*done {
		return ctrl.Result{}, nil
	}
	c.mu.Lock()
	known, ok := c.remotes[key]
	if !ok {
		known = &remoteCluster{}
		c.remotes[key] = known
	}
	c.mu.Unlock()
	if wait := known.wait(); wait > 0 {
		c.notify(ctx, cluster, known, false)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	tenant := c.limits.tenant(key.Namespace)
	release, ok := tenant.acquire(ctx, tenant.connects, 0)
	if !ok {
		return ctrl.Result{RequeueAfter: time.Second + rand.N(time.Second)}, nil //nolint:gosec // jitter, not security
	}
	defer release()
	was, answered, through, behind := known.connection(), known.answers(), known.through, known.proxied.Load()
	next := c.step(ctx, cluster, known, tenant)
	known.mu.Lock()
	known.last = time.Now()
	known.next = known.last.Add(next)
	known.mu.Unlock()
	c.notify(ctx, cluster, known, was != known.connection())
	known.through = known.by()
	if was != known.connection() || answered != known.answers() || through != known.through || behind != known.proxied.Load() {
		c.notifyNode(key, "")
		c.notifyTotals(key)
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// step does one step for a workload cluster, and returns when to continue.
func (c *Clusters) step(ctx context.Context, cluster *clusterv1.Cluster, known *remoteCluster, tenant *tenant) time.Duration {
	if known.changed.Swap(false) || known.kubeconfig == nil {
		config, err := c.kubeconfig(ctx, cluster)
		if err != nil {
			known.drop(err)
			known.kubeconfig = nil
			wait := known.failed(time.Now())
			if apierrors.IsNotFound(err) {
				// The watch of Secrets notifies when it exists; no server has failed yet.
				known.failures = 0
				return maxRetry
			}
			return wait
		}
		if known.open != nil && !sameServer(known.open.config, config) {
			known.drop(errEnded)
		}
		known.kubeconfig = config
		target, err := url.Parse(config.Host)
		known.proxied.Store(err == nil && proxied(target))
	}
	if known.open == nil {
		key := client.ObjectKeyFromObject(cluster)
		made, err := c.open(ctx, tenant, known.kubeconfig, key)
		if err != nil {
			known.kubeconfig = nil
			c.report(cluster, known, err)
			return known.failed(time.Now())
		}
		known.set(made, false)
	}
	open := known.open
	if err := open.failure(); err != nil {
		c.report(cluster, known, err)
		return c.lost(known, open, err)
	}
	if !known.isUsed {
		return c.await(ctx, cluster, known)
	}
	return c.probe(ctx, known, open)
}

// probe checks whether a connection in use still answers, and whether the kubeconfig's own address
// can be used again.
func (c *Clusters) probe(ctx context.Context, known *remoteCluster, open *connection) time.Duration {
	err := open.probe(ctx)
	failures := known.probed(err, time.Now())
	switch {
	case err != nil && (apierrors.IsUnauthorized(err) || failures >= maxProbeFailures):
		return c.lost(known, open, err)
	case err == nil && open.dialer.isBack(ctx):
		open.hangUp()
	case failures > 0 && failures < notAnswering:
		return nextLook
	}
	return probeInterval
}

// await makes a connection usable as soon as its Nodes are loaded.
func (c *Clusters) await(ctx context.Context, cluster *clusterv1.Cluster, known *remoteCluster) time.Duration {
	pending := known.open
	waiting, cancel := context.WithTimeout(ctx, syncStep)
	defer cancel()
	if pending.cache.WaitForCacheSync(waiting) && pending.failure() == nil {
		known.set(pending, true)
		known.probed(nil, time.Now())
		return probeInterval
	}
	if err := pending.failure(); err != nil {
		c.report(cluster, known, err)
		return c.lost(known, pending, err)
	}
	if time.Since(pending.opened) > syncTime {
		return c.lost(known, pending, errLate)
	}
	return 100 * time.Millisecond
}

// lost ends a connection. A connection that lived long is reopened immediately.
func (c *Clusters) lost(known *remoteCluster, open *connection, err error) time.Duration {
	if time.Since(open.opened) > steady {
		known.failures, known.reported = 0, nil
	}
	known.drop(err)
	known.kubeconfig = nil
	return known.failed(time.Now())
}

// kubeconfig reads the Cluster's Secret and reports its errors on the Cluster.
func (c *Clusters) kubeconfig(ctx context.Context, cluster *clusterv1.Cluster) (*rest.Config, error) {
	found := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	if err := c.secrets.Get(ctx, key, found); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := kubeconfig.Parse(found.Data[secret.KubeconfigDataName])
	var refused *kubeconfig.Error
	if err == nil {
		_, err = newDialer(config, nil, nil) // reads the certificates
	}
	if err == nil || errors.As(err, &refused) {
		if reportErr := c.reportKubeconfig(ctx, cluster, key.Name, refused); reportErr != nil {
			ctrl.LoggerFrom(ctx).Error(reportErr, "Recording the problem with the kubeconfig")
		}
	}
	return config, err
}

// sameServer reports whether two kubeconfigs say the same.
func sameServer(a, b *rest.Config) bool {
	return a.Host == b.Host && a.BearerToken == b.BearerToken && a.Username == b.Username && a.Password == b.Password &&
		reflect.DeepEqual(a.TLSClientConfig, b.TLSClientConfig)
}

func (c *Clusters) wake(key client.ObjectKey) {
	if known := c.find(key); known != nil {
		known.mu.Lock()
		known.next = time.Time{}
		known.mu.Unlock()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.queue != nil {
		c.queue.Add(ctrl.Request{NamespacedName: key})
	}
}

// recheck reconciles a Cluster now if its server counts as reachable, because a watch of it has
// ended with an error.
func (c *Clusters) recheck(key client.ObjectKey) {
	if known := c.find(key); known != nil && known.answers() {
		c.wake(key)
	}
}

// Through returns the address of the control plane's server by which a cluster is reached, or an
// empty string if the kubeconfig's address is used. OnNode notifies of changes.
func (c *Clusters) Through(cluster client.ObjectKey) string {
	if known := c.find(cluster); known != nil {
		return known.by()
	}
	return ""
}

// Proxied reports whether the manager has a proxy for the address in a cluster's kubeconfig. If it
// has, no server of the control plane is dialled instead. OnNode notifies of changes.
func (c *Clusters) Proxied(cluster client.ObjectKey) bool {
	known := c.find(cluster)
	return known != nil && known.proxied.Load()
}

// Refused returns why the responses of a cluster's API server are rejected, or an empty string if
// they are accepted or the server does not respond.
func (c *Clusters) Refused(cluster client.ObjectKey) string {
	if known := c.find(cluster); known != nil {
		return ptr.Deref(known.refused.Load(), "")
	}
	return ""
}

// Reaches reports whether a cluster's API answers the manager. OnNode notifies of changes.
func (c *Clusters) Reaches(cluster client.ObjectKey) bool {
	known := c.find(cluster)
	return known != nil && known.answers()
}

func (c *Clusters) find(key client.ObjectKey) *remoteCluster {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.remotes[key]
}

func (c *Clusters) forget(key client.ObjectKey) {
	c.mu.Lock()
	known := c.remotes[key]
	delete(c.remotes, key)
	for _, one := range c.sources {
		delete(one.notified, key)
	}
	c.mu.Unlock()
	if known != nil {
		known.drop(errEnded)
	}
}

// wait returns the time until the cluster is due: sooner if its Secret changed, but not sooner than
// after a failure.
func (r *remoteCluster) wait() time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.changed.Load() && r.last.Add(minRetry).Before(r.next) {
		return time.Until(r.last.Add(minRetry))
	}
	return time.Until(r.next)
}

// connection returns the usable connection, or nil.
func (r *remoteCluster) connection() *connection {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.isUsed {
		return nil
	}
	return r.open
}

// answers reports whether there is a connection, and probes of it do not fail.
func (r *remoteCluster) answers() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.isUsed && r.open.failure() == nil && r.health.ConsecutiveFailures < notAnswering
}

// by returns the server that was used instead of the kubeconfig's own address, if any.
func (r *remoteCluster) by() string {
	if used := r.connection(); used != nil {
		return used.dialer.by()
	}
	return ""
}

func (r *remoteCluster) set(open *connection, isUsed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open, r.isUsed = open, isUsed; isUsed {
		r.refused.Store(nil)
	}
}

func (r *remoteCluster) drop(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != nil {
		r.open.end(err)
	}
	r.open, r.isUsed = nil, false
}

// probed counts a probe, and a connection that was made as one.
func (r *remoteCluster) probed(err error, now time.Time) (failures int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health.LastProbeTime = now
	r.health.ConsecutiveFailures++
	if err == nil {
		r.health.LastProbeSuccessTime, r.health.ConsecutiveFailures = now, 0
	}
	return r.health.ConsecutiveFailures
}

// failed counts a connection that failed or was lost, and returns when to try again.
func (r *remoteCluster) failed(now time.Time) time.Duration {
	r.mu.Lock()
	r.health.LastProbeTime = now
	r.health.ConsecutiveFailures++
	r.failures++
	r.mu.Unlock()
	wait := retryAfter(r.failures)
	return wait + rand.N(wait/4) //nolint:gosec // jitter, not security
}

// retryAfter doubles with each failure in a row.
func retryAfter(failures int) time.Duration {
	return min(minRetry<<min(max(failures-1, 0), 10), maxRetry)
}
