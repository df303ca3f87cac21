package provisioning

import (
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// field is a field that has no effect.
type field[T any] struct {
	path  string
	given func(T) bool
}

// clusterFields are the fields of a Cluster that are kept and have no effect.
var clusterFields = []field[*provv1.ClusterSpec]{
	{"clusterAPIConfig", func(s *provv1.ClusterSpec) bool { return s.ClusterAPIConfig != nil }},
	{"localClusterAuthEndpoint", func(s *provv1.ClusterSpec) bool { return s.LocalClusterAuthEndpoint.Enabled }},
	{"clusterAgentDeploymentCustomization", func(s *provv1.ClusterSpec) bool { return s.ClusterAgentDeploymentCustomization != nil }},
	{"fleetAgentDeploymentCustomization", func(s *provv1.ClusterSpec) bool { return s.FleetAgentDeploymentCustomization != nil }},
	{"webhookDeploymentCustomization", func(s *provv1.ClusterSpec) bool { return s.WebhookDeploymentCustomization != nil }},
	{"defaultPodSecurityAdmissionConfigurationTemplateName", func(s *provv1.ClusterSpec) bool { return s.DefaultPodSecurityAdmissionConfigurationTemplateName != "" }},
	{"defaultClusterRoleForProjectMembers", func(s *provv1.ClusterSpec) bool { return s.DefaultClusterRoleForProjectMembers != "" }},
	{"enableNetworkPolicy", func(s *provv1.ClusterSpec) bool { return s.EnableNetworkPolicy != nil && *s.EnableNetworkPolicy }},
	{"redeploySystemAgentGeneration", func(s *provv1.ClusterSpec) bool { return s.RedeploySystemAgentGeneration != 0 }},
}

// configFields are the fields of rkeConfig that are kept and have no effect.
var configFields = []field[*provv1.RKEConfig]{
	{"chartValues", func(c *provv1.RKEConfig) bool { return len(c.ChartValues) > 0 }},
	{"etcdSnapshotCreate", func(c *provv1.RKEConfig) bool { return c.ETCDSnapshotCreate != nil }},
	{"etcdSnapshotRestore", func(c *provv1.RKEConfig) bool { return c.ETCDSnapshotRestore != nil }},
	{"rotateCertificates", func(c *provv1.RKEConfig) bool { return c.RotateCertificates != nil }},
	{"rotateEncryptionKeys", func(c *provv1.RKEConfig) bool { return c.RotateEncryptionKeys != nil }},
	{"dataDirectories.provisioning", func(c *provv1.RKEConfig) bool { return c.DataDirectories.Provisioning != "" }},
	{"upgradeStrategy.controlPlaneDrainOptions", func(c *provv1.RKEConfig) bool { return c.UpgradeStrategy.ControlPlaneDrainOptions.Enabled }},
	{"upgradeStrategy.workerDrainOptions", func(c *provv1.RKEConfig) bool { return c.UpgradeStrategy.WorkerDrainOptions.Enabled }},
}

// poolFields are the fields of a pool that are kept and have no effect.
var poolFields = []field[*provv1.MachinePool]{
	{"displayName", func(p *provv1.MachinePool) bool { return p.DisplayName != "" }},
	{"dynamicSchemaSpec", func(p *provv1.MachinePool) bool { return p.DynamicSchemaSpec != "" }},
	{"userdata.inlineUserdata", func(p *provv1.MachinePool) bool { return p.Userdata != nil && p.Userdata.InlineUserdata != "" }},
	{"autoscalingMinSize", func(p *provv1.MachinePool) bool { return p.AutoscalingMinSize != nil && !isAutoscaled(p) }},
}

// NotActedOn returns the paths of the fields of a Cluster that are set and have no effect, below
// spec. Pools are named by their name.
func NotActedOn(cluster *provv1.Cluster) []string {
	paths := given("", clusterFields, &cluster.Spec)
	config := cluster.Spec.RKEConfig
	if config == nil {
		return paths
	}
	paths = append(paths, given("rkeConfig.", configFields, config)...)
	for i := range config.MachinePools {
		pool := &config.MachinePools[i]
		paths = append(paths, given("rkeConfig.machinePools["+pool.Name+"].", poolFields, pool)...)
	}
	return paths
}

func given[T any](prefix string, fields []field[T], in T) []string {
	var paths []string
	for _, f := range fields {
		if f.given(in) {
			paths = append(paths, prefix+f.path)
		}
	}
	return paths
}
