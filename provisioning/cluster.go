package provisioning

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// labelsOf are the labels of every rendered object. The manager that a label chooses for the Cluster
// works on its objects, too.
func labelsOf(cluster *provv1.Cluster) map[string]string {
	labels := map[string]string{rkev1.ClusterNameLabel: cluster.Name, clusterv1.ClusterNameLabel: cluster.Name}
	if filter := cluster.Labels[clusterv1.WatchLabel]; filter != "" {
		labels[clusterv1.WatchLabel] = filter
	}
	return labels
}

func metaOf(cluster *provv1.Cluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name, Labels: labelsOf(cluster)}
}

// capiCluster renders the CAPI Cluster. spec.controlPlaneEndpoint is Cluster API's to set.
func capiCluster(cluster *provv1.Cluster) *clusterv1.Cluster {
	ours := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.GroupVersion.Group, Kind: kind, Name: cluster.Name}
	}
	out := &clusterv1.Cluster{ObjectMeta: metaOf(cluster, cluster.Name),
		Spec: clusterv1.ClusterSpec{InfrastructureRef: ours("RKECluster"), ControlPlaneRef: ours("RKEControlPlane")}}
	if slices.ContainsFunc(cluster.Spec.RKEConfig.MachinePools, func(p provv1.MachinePool) bool { return isAutoscaled(&p) }) {
		state := provv1.AutoscalerEnabledAnnotation
		if isAutoscalerPaused(cluster) {
			state = provv1.AutoscalerPausedAnnotation
		}
		out.Annotations = map[string]string{state: "true"}
	}
	return out
}

// isAutoscalerPaused reports whether the cluster autoscaler leaves the Cluster's pools alone.
func isAutoscalerPaused(cluster *provv1.Cluster) bool {
	return cluster.Annotations[provv1.AutoscalerPausedAnnotation] == "true"
}

// infrastructure renders the RKECluster. spec.controlPlaneEndpoint is rkecluster's to set.
func infrastructure(cluster *provv1.Cluster) *rkev1.RKECluster {
	return &rkev1.RKECluster{ObjectMeta: metaOf(cluster, cluster.Name)}
}

// ControlPlane renders the RKEControlPlane.
func ControlPlane(cluster *provv1.Cluster) *rkev1.RKEControlPlane {
	config := cluster.Spec.RKEConfig
	return &rkev1.RKEControlPlane{ObjectMeta: metaOf(cluster, cluster.Name), Spec: rkev1.RKEControlPlaneSpec{
		ClusterConfiguration:     *config.ClusterConfiguration.DeepCopy(),
		AgentEnvVars:             cluster.Spec.AgentEnvVars,
		LocalClusterAuthEndpoint: cluster.Spec.LocalClusterAuthEndpoint,
		ETCDSnapshotCreate:       config.ETCDSnapshotCreate,
		ETCDSnapshotRestore:      config.ETCDSnapshotRestore,
		RotateCertificates:       config.RotateCertificates,
		RotateEncryptionKeys:     config.RotateEncryptionKeys,
		KubernetesVersion:        cluster.Spec.KubernetesVersion,
		ClusterName:              cluster.Name,
		ManagementClusterName:    cluster.Status.ClusterName,
	}}
}

// bootstrapTemplate renders the RKEBootstrapTemplate. It does not depend on the specification, so
// no change of it replaces a machine.
func bootstrapTemplate(cluster *provv1.Cluster) *rkev1.RKEBootstrapTemplate {
	return &rkev1.RKEBootstrapTemplate{ObjectMeta: metaOf(cluster, BootstrapTemplateName(cluster.Name)), Spec: rkev1.RKEBootstrapTemplateSpec{
		ClusterName: cluster.Name,
		Template:    rkev1.RKEBootstrapTemplateResource{Spec: rkev1.RKEBootstrapSpec{ClusterName: cluster.Name}},
	}}
}
