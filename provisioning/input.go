package provisioning

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
)

// Input is everything that the objects of a Cluster depend on.
type Input struct {
	// Cluster is the provisioning Cluster, with rkeConfig.
	Cluster *provv1.Cluster
	// Pools are the objects of each pool, by the name of the pool.
	Pools map[string]PoolInput
}

// PoolInput are the objects of one pool that exist.
type PoolInput struct {
	// Config is the driver's options; nil if the pool has none that it may use.
	Config *unstructured.Unstructured
	// Fields are the options of the Config's driver by their names; without them, a value is never
	// shown, and no option equals its default.
	Fields map[string]crdgen.Field
	// Refused says why the pool has no Config, with a reason of api/provisioning/v1.
	Refused *Finding
	// Inactive is the name of the Config's NodeDriver if it is not active; otherwise empty. An
	// inactive driver still replaces servers of existing pools, and gets no new machine templates.
	Inactive string
	// Deployment is the pool's MachineDeployment; nil before the first rendering.
	Deployment *clusterv1.MachineDeployment
	// Template is the machine template that the MachineDeployment uses; nil if it is gone.
	Template *unstructured.Unstructured
}

// Object is a rendered object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Finding is a part of a Cluster that is not rendered as it is specified.
type Finding struct {
	// Pool is the name of the pool; empty if the finding is about the whole Cluster.
	Pool string
	// Reason is a reason of api/provisioning/v1.
	Reason string
	// Message is the cause, a sentence without a full stop.
	Message string
	// Next is the next step of the user, without a full stop.
	Next string
}

// Cause returns the cause with the name of the pool.
func (f Finding) Cause() string {
	if f.Pool == "" {
		return f.Message
	}
	return "pool " + f.Pool + ": " + f.Message
}

// String returns the cause and the next step as one text.
func (f Finding) String() string { return f.Cause() + ". " + f.Next }

// EditCommand returns the command that edits a Cluster.
func EditCommand(cluster *provv1.Cluster) string {
	return fmt.Sprintf("kubectl edit clusters.provisioning.cattle.io %s -n %s", cluster.Name, cluster.Namespace)
}

// EditConfigCommand returns the command that edits a Config of the Cluster.
func EditConfigCommand(cluster *provv1.Cluster, kind, name string) string {
	return fmt.Sprintf("kubectl edit %ss.%s %s -n %s", strings.ToLower(kind), rkev1.MachineConfigGroupVersion.Group, name, cluster.Namespace)
}

// Result are the objects of a Cluster.
type Result struct {
	// Cluster is the CAPI Cluster. All other objects belong to it.
	Cluster *clusterv1.Cluster
	// Objects are the other objects, in the order in which they are applied.
	Objects []Object
	// Pools are the pools, in the order of the specification.
	Pools []Pool
	// Keep holds the names of MachineDeployments that no pool asks for, and that must not be
	// deleted.
	Keep []string
	// Pending are the replacements of machines that wait for an approval; nil if none do.
	Pending *provv1.PendingReplacement
	// LosesData is the name of the pool whose machine with the cluster's data is deleted or replaced,
	// because the user forces it; empty for none.
	LosesData string
	// Findings are the reasons for which the objects differ from the specification.
	Findings []Finding
}

// Pool is a rendered pool.
type Pool struct {
	// Name is the name in the specification.
	Name string
	// Deployment is the name of its MachineDeployment.
	Deployment string
	// Wanted is the number of machines that the specification asks for.
	Wanted int32
	// Autoscaled: the cluster autoscaler chooses the number of machines.
	Autoscaled bool
	// Paused: no machine is replaced.
	Paused bool
	// Rendered is the number of machines that the MachineDeployment asks for. It differs from Wanted
	// if a finding says so.
	Rendered int32
}
