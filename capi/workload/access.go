package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/capi/kubeconfig"
)

// connected is the connection to a Cluster, or the error that Cluster API's controllers know.
func (c *Clusters) connected(key client.ObjectKey) (*connection, error) {
	if known := c.find(key); known != nil {
		if found := known.connection(); found != nil && found.failure() == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("cluster %s: %w", key, clustercache.ErrClusterNotConnected)
}

// GetClient implements clustercache.ClusterCache.
func (c *Clusters) GetClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	found, err := c.connected(cluster)
	if err != nil {
		return nil, err
	}
	return found.client, nil
}

// GetReader implements clustercache.ClusterCache.
func (c *Clusters) GetReader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error) {
	return c.GetClient(ctx, cluster)
}

// GetUncachedClient implements clustercache.ClusterCache.
func (c *Clusters) GetUncachedClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	found, err := c.connected(cluster)
	if err != nil {
		return nil, err
	}
	return found.live, nil
}

// GetRESTConfig implements clustercache.ClusterCache. The embedded core does not call it: the
// result has no limits.
func (c *Clusters) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	found, err := c.connected(cluster)
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(found.config), nil
}

// Watch implements clustercache.ClusterCache: it adds a watch once.
func (c *Clusters) Watch(_ context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error {
	found, err := c.connected(cluster)
	if err != nil {
		return err
	}
	if watcher.Name() == "" {
		return errors.New("a watch needs a name")
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.watches.Has(watcher.Name()) {
		return nil
	}
	if err := watcher.Watch(found.cache); err != nil {
		return fmt.Errorf("adding watch %s: %w", watcher.Name(), err)
	}
	found.watches.Insert(watcher.Name())
	return nil
}

// GetHealthCheckingState implements clustercache.ClusterCache.
func (c *Clusters) GetHealthCheckingState(_ context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState {
	known := c.find(cluster)
	if known == nil {
		return clustercache.HealthCheckingState{}
	}
	known.mu.RLock()
	defer known.mu.RUnlock()
	return known.health
}

// clusterSource is a controller that hears of connections.
type clusterSource struct {
	requests func(context.Context, client.Object) []ctrl.Request
	// silences are the durations without a response after which the controller is notified.
	silences []time.Duration
	queue    workqueue.TypedRateLimitingInterface[ctrl.Request]
	notified map[client.ObjectKey]time.Time
}

// GetClusterSource implements clustercache.ClusterCache.
func (c *Clusters) GetClusterSource(_ string, requests func(context.Context, client.Object) []ctrl.Request,
	opts ...clustercache.GetClusterSourceOption) source.Source {
	made := &clusterSource{requests: requests, notified: map[client.ObjectKey]time.Time{}}
	for _, opt := range opts {
		if silence, ok := opt.(clustercache.WatchForProbeFailure); ok {
			made.silences = append(made.silences, time.Duration(silence))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = append(c.sources, made)
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		made.queue = queue
		return nil
	})
}

// notify wakes the controllers that subscribed to opened and closed connections, or to silent
// clusters.
func (c *Clusters) notify(ctx context.Context, cluster *clusterv1.Cluster, known *remoteCluster, changed bool) {
	key := client.ObjectKeyFromObject(cluster)
	known.mu.RLock()
	answered := known.health.LastProbeSuccessTime
	known.mu.RUnlock()
	now := time.Now()
	c.mu.Lock()
	var due []*clusterSource
	for _, one := range c.sources {
		// A silence has become long enough since the last notification of the controller.
		silent := func(silence time.Duration) bool {
			due := answered.Add(silence)
			return one.notified[key].Before(due) && due.Before(now)
		}
		if one.queue != nil && (changed || slices.ContainsFunc(one.silences, silent)) {
			one.notified[key] = now
			due = append(due, one)
		}
	}
	c.mu.Unlock()
	for _, one := range due {
		for _, request := range one.requests(ctx, cluster) {
			one.queue.Add(request)
		}
	}
}

// KubeconfigAcceptedCondition on a CAPI Cluster is False while its kubeconfig Secret has rejected
// content, and True after it was fixed. It is absent as long as nothing was rejected. Cluster API
// keeps foreign conditions.
const KubeconfigAcceptedCondition = "KubeconfigAccepted"

// Reasons of KubeconfigAcceptedCondition, and of events about connections.
const (
	// KubeconfigAcceptedReason: the kubeconfig is used.
	KubeconfigAcceptedReason = "KubeconfigAccepted"
	// KubeconfigRefusedReason: the message names the field and the remedy.
	KubeconfigRefusedReason = "KubeconfigRefused"
	// AnswerRefusedReason: the response of the workload cluster's API server exceeded a limit, or
	// redirected.
	AnswerRefusedReason = "AnswerRefused"
)

// connectionOwner is the field manager of the condition.
const connectionOwner = "drover-workload-connections"

// reportKubeconfig reports on the Cluster which field is rejected, or that the problem is solved.
func (c *Clusters) reportKubeconfig(ctx context.Context, cluster *clusterv1.Cluster, name string, refused *kubeconfig.Error) error {
	if refused == nil && meta.FindStatusCondition(cluster.Status.Conditions, KubeconfigAcceptedCondition) == nil {
		return nil
	}
	// No observedGeneration: the condition does not depend on the Cluster's spec.
	is := metav1.Condition{Type: KubeconfigAcceptedCondition, Status: metav1.ConditionTrue, Reason: KubeconfigAcceptedReason}
	if refused != nil {
		is.Status, is.Reason = metav1.ConditionFalse, KubeconfigRefusedReason
		is.Message = fmt.Sprintf("Secret %s: %s. The manager does not use it to connect to the cluster.", name, refused)
	}
	conditions := slices.Clone(cluster.Status.Conditions)
	if !meta.SetStatusCondition(&conditions, is) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta.FindStatusCondition(conditions, KubeconfigAcceptedCondition))
	if err != nil {
		return fmt.Errorf("building the condition: %w", err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{fields}}}}
	patch.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	patch.SetNamespace(cluster.Namespace)
	patch.SetName(cluster.Name)
	patch.SetUID(cluster.UID)
	err = c.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(connectionOwner), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the condition: %w", err)
	}
	if refused != nil {
		c.recorder.Eventf(cluster, nil, corev1.EventTypeWarning, KubeconfigRefusedReason, "Connect", "%s", is.Message)
	}
	return nil
}

// report reports once that a server's responses are rejected, and why. It does not quote the
// responses.
func (c *Clusters) report(cluster *clusterv1.Cluster, known *remoteCluster, err error) {
	for _, reason := range []error{errAnswer, errHeld} {
		if !errors.Is(err, reason) {
			continue
		}
		why := reason.Error()
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			if strings.HasPrefix(inner.Error(), reason.Error()+": ") {
				why = inner.Error() // our own words alone
			}
		}
		known.refused.Store(&why)
		if !errors.Is(known.reported, reason) {
			known.reported = reason
			c.recorder.Eventf(cluster, nil, corev1.EventTypeWarning, AnswerRefusedReason, "Connect",
				"%s. The manager retries with increasing delays. The cluster may be compromised.", why)
		}
	}
}
