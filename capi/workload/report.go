package workload

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KubeconfigAcceptedCondition on a CAPI Cluster is False while its kubeconfig Secret says what is not let through, and True after that was
// mended. It is absent as long as nothing was refused. Cluster API leaves conditions alone that are not its own.
const KubeconfigAcceptedCondition = "KubeconfigAccepted"

// Reasons of KubeconfigAcceptedCondition, and of events about connections.
const (
	// KubeconfigAcceptedReason: the kubeconfig is used.
	KubeconfigAcceptedReason = "KubeconfigAccepted"
	// KubeconfigRefusedReason: the message names the field and what to do.
	KubeconfigRefusedReason = "KubeconfigRefused"
	// AnswerRefusedReason: the API server of the workload cluster answered more than is read, or led elsewhere.
	AnswerRefusedReason = "AnswerRefused"
)

// connectionOwner is the field manager of the condition.
const connectionOwner = "drover-workload-connections"

// reportKubeconfig says on the Cluster which field is refused, or that none is any more.
func (c *clusterCache) reportKubeconfig(ctx context.Context, cluster *clusterv1.Cluster, name string, refused *KubeconfigError) error {
	was := meta.FindStatusCondition(cluster.Status.Conditions, KubeconfigAcceptedCondition)
	if was == nil && refused == nil {
		return nil
	}
	is := metav1.Condition{Type: KubeconfigAcceptedCondition, Status: metav1.ConditionTrue, Reason: KubeconfigAcceptedReason,
		ObservedGeneration: cluster.Generation, LastTransitionTime: metav1.Now()}
	if refused != nil {
		is.Status, is.Reason = metav1.ConditionFalse, KubeconfigRefusedReason
		is.Message = fmt.Sprintf("Secret %s: %s. Nobody connects to the cluster with it.", name, refused)
	}
	if was != nil && was.Status == is.Status && was.Message == is.Message {
		return nil
	}
	if was != nil && was.Status == is.Status {
		is.LastTransitionTime = was.LastTransitionTime
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&is)
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

// report tells once that a server's answers are not read. What it answered is not repeated.
func (c *clusterCache) report(cluster *clusterv1.Cluster, known *remoteCluster, err error) {
	for _, reason := range []error{errAnswer, errHeld} {
		if errors.Is(err, reason) && !errors.Is(known.reported, reason) {
			known.reported = reason
			c.recorder.Eventf(cluster, nil, corev1.EventTypeWarning, AnswerRefusedReason, "Connect",
				"%s. It is tried again, ever more seldom; look at who controls the cluster.", reason)
		}
	}
}
