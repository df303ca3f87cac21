package provisioning

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
)

// deployment renders the MachineDeployment of a pool.
func deployment(cluster *provv1.Cluster, pool *provv1.MachinePool, template *unstructured.Unstructured, replicas int32) (*clusterv1.MachineDeployment, error) {
	annotations, err := machineAnnotations(cluster, pool)
	if err != nil {
		return nil, err
	}
	name := Name(cluster.Name, pool.Name)
	out := &clusterv1.MachineDeployment{ObjectMeta: metaOf(cluster, name)}
	maps.Copy(out.Labels, withoutReserved(pool.Labels))
	maps.Copy(out.Labels, withoutReserved(pool.MachineDeploymentLabels))
	out.Labels[rkev1.MachinePoolLabel], out.Labels[rkev1.OSLabel] = pool.Name, linux
	out.Annotations = maps.Clone(pool.MachineDeploymentAnnotations)
	out.Spec = clusterv1.MachineDeploymentSpec{
		ClusterName: cluster.Name,
		Selector:    metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.MachineDeploymentNameLabel: name, clusterv1.ClusterNameLabel: cluster.Name}},
		Rollout: clusterv1.MachineDeploymentRolloutSpec{Strategy: clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.RollingUpdateMachineDeploymentStrategyType, RollingUpdate: rollingUpdate(pool)}},
		Deletion: clusterv1.MachineDeploymentDeletionSpec{Order: clusterv1.OldestMachineSetDeletionOrder},
		Template: clusterv1.MachineTemplateSpec{
			ObjectMeta: clusterv1.ObjectMeta{Labels: machineLabels(cluster, pool, name), Annotations: annotations},
			Spec: clusterv1.MachineSpec{
				ClusterName: cluster.Name,
				Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: rkev1.GroupVersion.Group, Kind: "RKEBootstrapTemplate", Name: BootstrapTemplateName(cluster.Name)}},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: rkev1.MachineGroupVersion.Group, Kind: template.GetKind(), Name: template.GetName()},
			},
		},
	}
	if pool.Paused {
		out.Spec.Paused = new(true)
	}
	if timeout := pool.DrainBeforeDeleteTimeout; timeout != nil && pool.DrainBeforeDelete {
		out.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = seconds(timeout.Duration)
	}
	if isAutoscaled(pool) && isAutoscalerPaused(cluster) {
		return out, nil // the autoscaler finds no sizes, and the number stays
	}
	if isAutoscaled(pool) {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[clusterv1.AutoscalerMinSizeAnnotation] = strconv.Itoa(int(*pool.AutoscalingMinSize))
		out.Annotations[clusterv1.AutoscalerMaxSizeAnnotation] = strconv.Itoa(int(*pool.AutoscalingMaxSize))
		return out, nil // Cluster API starts with the minimum and then leaves the number to the autoscaler
	}
	out.Spec.Replicas = &replicas
	return out, nil
}

// firstSize returns the number of machines with which the autoscaler's pool starts: quantity, if it is
// set and within the sizes, or else the smallest. The default of quantity is 1.
func firstSize(pool *provv1.MachinePool) int32 {
	if quantity(pool) <= 1 {
		return *pool.AutoscalingMinSize
	}
	return min(max(quantity(pool), *pool.AutoscalingMinSize), *pool.AutoscalingMaxSize)
}

// isAutoscaled reports whether the cluster autoscaler chooses the number of a pool's machines. It
// does not for servers, whose number Drover changes one by one.
func isAutoscaled(pool *provv1.MachinePool) bool {
	return pool.AutoscalingMinSize != nil && pool.AutoscalingMaxSize != nil && !pool.EtcdRole && !pool.ControlPlaneRole
}

// machineLabels are the labels of a pool's Machines.
func machineLabels(cluster *provv1.Cluster, pool *provv1.MachinePool, deployment string) map[string]string {
	labels := withoutReserved(pool.Labels)
	maps.Copy(labels, labelsOf(cluster))
	labels[clusterv1.MachineDeploymentNameLabel] = deployment
	labels[rkev1.MachinePoolLabel] = pool.Name
	labels[rkev1.OSLabel] = linux
	for label, has := range map[string]bool{rkev1.EtcdRoleLabel: pool.EtcdRole, rkev1.ControlPlaneRoleLabel: pool.ControlPlaneRole, rkev1.WorkerRoleLabel: pool.WorkerRole} {
		if has {
			labels[label] = "true"
		}
	}
	return labels
}

// machineAnnotations are the annotations of a pool's Machines. Cluster API copies a change to
// existing Machines without replacing them.
func machineAnnotations(cluster *provv1.Cluster, pool *provv1.MachinePool) (map[string]string, error) {
	annotations := map[string]string{}
	if !pool.DrainBeforeDelete {
		annotations[clusterv1.ExcludeNodeDrainingAnnotation] = "true"
		// Without a drain, a volume that stays attached would hold the deletion forever.
		annotations[clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation] = "true"
	}
	if limit := cmp.Or(pool.HostnameLengthLimit, cluster.Spec.RKEConfig.MachinePoolDefaults.HostnameLengthLimit); limit != 0 {
		annotations[rkev1.HostnameLengthLimitAnnotation] = strconv.Itoa(int(limit))
	}
	if name := cmp.Or(pool.CloudCredentialSecretName, cluster.Spec.CloudCredentialSecretName); name != "" {
		annotations[rkev1.CredentialAnnotation] = name
	}
	// A Node's taints have no order, so another order in the Cluster changes nothing.
	taints := slices.Clone(pool.Taints)
	slices.SortStableFunc(taints, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect))
	})
	for name, value := range map[string]any{rkev1.NodeLabelsAnnotation: pool.Labels, rkev1.NodeTaintsAnnotation: taints} {
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding labels and taints of pool %s: %w", pool.Name, err)
		}
		if text := string(encoded); text != "null" && text != "{}" && text != "[]" {
			annotations[name] = text
		}
	}
	return annotations, nil
}

// withoutReserved leaves out the labels that only Drover and Cluster API set. Admission rejects
// them, but an object may be older than the rule.
func withoutReserved(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range labels {
		if !provv1.IsReserved(key) {
			kept[key] = value
		}
	}
	return kept
}

// TakesHosts reports whether the machines of a pool take the host that the pool's Config names. Such a
// Config has room for one machine.
func TakesHosts(pool *provv1.MachinePool) bool {
	return clouds.Of(crdgen.DriverOfConfig(pool.MachineConfigRef.Kind)).TakesHosts()
}

// rollingUpdate renders how many machines are replaced at a time. A host has no room for a second
// machine, so its machine is deleted first.
func rollingUpdate(pool *provv1.MachinePool) clusterv1.MachineDeploymentRolloutStrategyRollingUpdate {
	if TakesHosts(pool) {
		return oneLess()
	}
	if pool.RollingUpdate == nil {
		return clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{}
	}
	return clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxUnavailable: pool.RollingUpdate.MaxUnavailable, MaxSurge: pool.RollingUpdate.MaxSurge}
}

// oneLess deletes a machine before the next one is created.
func oneLess() clusterv1.MachineDeploymentRolloutStrategyRollingUpdate {
	return clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1))}
}

func seconds(d time.Duration) *int32 {
	return new(int32(min(max(d/time.Second, 0), 1<<31-1)))
}
