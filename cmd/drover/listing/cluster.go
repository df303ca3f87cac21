package listing

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/advice"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// ClusterRef is the word before the name of a provisioning Cluster for kubectl and for drover.
const ClusterRef = "cluster.provisioning.cattle.io"

// Cluster sums one provisioning Cluster up.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ref names the object for kubectl and for drover: <singular>.<group>/<name>.
	Ref     string `json:"ref"`
	Version string `json:"version,omitempty"`
	// Ready and Updated are the status of the conditions of these names: True, False, or Unknown
	// while no manager has set them for the current specification.
	Ready   string `json:"ready"`
	Updated string `json:"updated"`
	// Reason and Message come from the condition Ready, or from Updated if only Updated is not
	// True; empty if both are True.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Made and Wanted count the machines of all pools.
	Made              int32               `json:"made"`
	Wanted            int32               `json:"wanted"`
	Pools             []provv1.PoolStatus `json:"pools,omitempty"`
	Paused            bool                `json:"paused,omitempty"`
	ManagementCluster string              `json:"managementCluster,omitempty"`
	KubeconfigSecret  string              `json:"kubeconfigSecret,omitempty"`
	Created           time.Time           `json:"created"`
	Deleting          bool                `json:"deleting,omitempty"`
}

// NewClusterList sums Clusters up, sorted by namespace and name.
func NewClusterList(clusters []*provv1.Cluster) List[Cluster] {
	list := List[Cluster]{APIVersion, "ClusterList", []Cluster{}}
	for _, c := range clusters {
		list.Items = append(list.Items, NewCluster(c))
	}
	slices.SortFunc(list.Items, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// NewCluster sums one Cluster up.
func NewCluster(c *provv1.Cluster) Cluster {
	s := Cluster{
		Namespace: c.Namespace, Name: c.Name, Ref: ClusterRef + "/" + c.Name, Version: c.Spec.KubernetesVersion, Pools: c.Status.Pools,
		Paused:            meta.IsStatusConditionTrue(c.Status.Conditions, provv1.PausedCondition),
		ManagementCluster: c.Status.ClusterName, KubeconfigSecret: c.Status.ClientSecretName,
		Created: c.CreationTimestamp.UTC(), Deleting: c.DeletionTimestamp != nil,
	}
	for _, pool := range c.Status.Pools {
		s.Made += pool.Made
		s.Wanted += pool.Wanted
	}
	ready, updated := current(c, provv1.ReadyCondition), current(c, provv1.UpdatedCondition)
	s.Ready, s.Updated = string(ready.Status), string(updated.Status)
	if ready.Status == metav1.ConditionTrue {
		ready = updated
	}
	if ready.Status != metav1.ConditionTrue {
		s.Reason = ready.Reason
		s.Message, _ = advice.Split(ready.Message)
	}
	return s
}

// current returns a condition of the current specification. It is Unknown until a manager has set
// it.
func current(c *provv1.Cluster, name string) metav1.Condition {
	found := meta.FindStatusCondition(c.Status.Conditions, name)
	if found == nil || c.Status.ObservedGeneration < c.Generation {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "NotReconciled", Message: "no manager has reconciled the current specification yet"}
	}
	return *found
}
