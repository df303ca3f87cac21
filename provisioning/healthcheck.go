package provisioning

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// startup is the time that a machine has to become ready if nodeStartupTimeout is 0 or empty. The
// check of its infrastructure needs one, because Cluster API counts from the Machine's creation.
const startup = 30 * time.Minute

// healthCheck renders the MachineHealthCheck of a pool; nil if unhealthyNodeTimeout is not set.
func healthCheck(cluster *provv1.Cluster, pool *provv1.MachinePool) *clusterv1.MachineHealthCheck {
	unhealthy := ptr.Deref(pool.UnhealthyNodeTimeout, metav1.Duration{}).Duration
	if unhealthy <= 0 {
		return nil
	}
	name := Name(cluster.Name, pool.Name)
	timeout := seconds(unhealthy)
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metaOf(cluster, name), Spec: clusterv1.MachineHealthCheckSpec{
		ClusterName: cluster.Name,
		Selector:    metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineDeploymentNameLabel: name}},
		Checks: clusterv1.MachineHealthCheckChecks{
			UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: timeout},
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: timeout},
			},
			// A server that is gone: its infra machine is no longer ready.
			UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{{
				Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse,
				TimeoutSeconds: seconds(max(unhealthy, startupOf(pool)))}},
		},
	}}
	if given := pool.NodeStartupTimeout; given != nil {
		check.Spec.Checks.NodeStartupTimeoutSeconds = seconds(given.Duration)
	}
	if most := ptr.Deref(pool.MaxUnhealthy, ""); most != "" {
		check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.Parse(most))
	}
	check.Spec.Remediation.TriggerIf.UnhealthyInRange = ptr.Deref(pool.UnhealthyRange, "")
	return check
}

func startupOf(pool *provv1.MachinePool) time.Duration {
	if given := pool.NodeStartupTimeout; given != nil && given.Duration > 0 {
		return given.Duration
	}
	return startup
}
