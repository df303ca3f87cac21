package provisioning

import (
	"slices"
	"strings"
	"unicode"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/planner"
)

// field is a field that has no effect.
type field[T any] struct {
	path  string
	given func(T) bool
}

// clusterFields are the fields of a Cluster that are kept and have no effect.
var clusterFields = []field[*provv1.ClusterSpec]{
	{"clusterAPIConfig", func(s *provv1.ClusterSpec) bool { return s.ClusterAPIConfig != nil }},
	{"clusterAgentDeploymentCustomization", func(s *provv1.ClusterSpec) bool { return s.ClusterAgentDeploymentCustomization != nil }},
	{"fleetAgentDeploymentCustomization", func(s *provv1.ClusterSpec) bool { return s.FleetAgentDeploymentCustomization != nil }},
	{"webhookDeploymentCustomization", func(s *provv1.ClusterSpec) bool { return s.WebhookDeploymentCustomization != nil }},
	{"defaultPodSecurityAdmissionConfigurationTemplateName", func(s *provv1.ClusterSpec) bool { return s.DefaultPodSecurityAdmissionConfigurationTemplateName != "" }},
	{"defaultClusterRoleForProjectMembers", func(s *provv1.ClusterSpec) bool { return s.DefaultClusterRoleForProjectMembers != "" }},
	{"enableNetworkPolicy", func(s *provv1.ClusterSpec) bool { return s.EnableNetworkPolicy != nil && *s.EnableNetworkPolicy }},
	{"redeploySystemAgentGeneration", func(s *provv1.ClusterSpec) bool { return s.RedeploySystemAgentGeneration != 0 }},
}

// poolFields are the fields of a pool that are kept and have no effect.
var poolFields = []field[*provv1.MachinePool]{
	{"displayName", func(p *provv1.MachinePool) bool { return p.DisplayName != "" }},
	{"dynamicSchemaSpec", func(p *provv1.MachinePool) bool { return p.DynamicSchemaSpec != "" }},
	{"userdata.inlineUserdata", func(p *provv1.MachinePool) bool { return p.Userdata != nil && p.Userdata.InlineUserdata != "" }},
}

// serverPoolFields are the fields that are kept and have no effect in a pool with the role etcd or
// control plane.
var serverPoolFields = []field[*provv1.MachinePool]{
	{"autoscalingMinSize", func(p *provv1.MachinePool) bool { return p.AutoscalingMinSize != nil && !isAutoscaled(p) }},
	{"autoscalingMaxSize", func(p *provv1.MachinePool) bool { return p.AutoscalingMaxSize != nil && !isAutoscaled(p) }},
}

// hostPoolFields are the fields that are kept and have no effect in a pool whose machines take hosts.
var hostPoolFields = []field[*provv1.MachinePool]{
	{"rollingUpdate", func(p *provv1.MachinePool) bool { return p.RollingUpdate != nil && TakesHosts(p) }},
}

// scaledPoolFields are the fields that are kept and have no effect in a pool with autoscaling sizes,
// once it exists. quantity is 1 by default.
var scaledPoolFields = []field[*provv1.MachinePool]{
	{"quantity", func(p *provv1.MachinePool) bool { return isAutoscaled(p) && quantity(p) != 1 }},
}

// NotActedOn returns the paths of the fields of a Cluster that are set and have no effect, below
// spec. Pools are named by their name. The planner has the list of the fields that the Cluster's
// RKEControlPlane has, too.
func NotActedOn(cluster *provv1.Cluster) []string {
	paths := given("", clusterFields, &cluster.Spec)
	config := cluster.Spec.RKEConfig
	if config == nil {
		return paths
	}
	for _, field := range planner.NotActedOn(&ControlPlane(cluster).Spec) {
		paths = append(paths, Path(field))
	}
	for i := range config.MachinePools {
		pool := &config.MachinePools[i]
		prefix := "rkeConfig.machinePools[" + pool.Name + "]."
		paths = append(paths, given(prefix, poolFields, pool)...)
		paths = append(paths, given(prefix, serverPoolFields, pool)...)
		paths = append(paths, given(prefix, hostPoolFields, pool)...)
		paths = append(paths, given(prefix, scaledPoolFields, pool)...)
	}
	return paths
}

// topLevel are the fields that a Cluster has in spec; it has the other fields of its RKEControlPlane in
// spec.rkeConfig.
var topLevel = []string{"kubernetesVersion", "agentEnvVars", "localClusterAuthEndpoint"}

// Path returns the path of a field of an RKEControlPlane, below spec, in a Cluster. The field may have
// more text behind it.
func Path(field string) string {
	name := field
	if end := strings.IndexFunc(field, func(r rune) bool { return !unicode.IsLetter(r) }); end >= 0 {
		name = field[:end]
	}
	if slices.Contains(topLevel, name) {
		return field
	}
	return "rkeConfig." + field
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
