package jobrunner

// Keys of the tags that every server gets whose driver has a flag for tags or labels.
const (
	TagCluster    = "drover-cluster"
	TagClusterUID = "drover-cluster-uid"
	TagMachine    = "drover-machine"
	TagMachineUID = "drover-machine-uid"
	// TagManagement is the UID of the management cluster's namespace kube-system. Servers of
	// earlier managers do not have it.
	TagManagement = "drover-management"
)

// Tags identify the owner of a server. The finder looks for the machine's UID; the rest is for
// people. Every cloud accepts the values: letters, digits, dashes.
func Tags(m MachineRef) map[string]string {
	tags := map[string]string{TagMachineUID: m.UID, TagMachine: ObjectName(m.Namespace, m.Name)}
	if m.ClusterName != "" {
		tags[TagCluster] = ObjectName(m.ClusterName)
	}
	if m.ClusterUID != "" {
		tags[TagClusterUID] = m.ClusterUID
	}
	if m.Management != "" {
		tags[TagManagement] = m.Management
	}
	return tags
}
