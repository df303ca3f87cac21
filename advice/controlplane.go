package advice

import (
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// ControlPlane is what advice names of an RKEControlPlane and, where a machine of it is meant, of that. What is not known is empty.
type ControlPlane struct {
	// Cluster is the name by which objects are shared with the cluster, which mostly is the Cluster's.
	Namespace, Name, Cluster, Machine string
	// Deployment is the machine's MachineDeployment, and empty for a Machine without one; Infra is its infra machine, as resource/name.
	Deployment, Infra string
	// Itself is the control plane again, Other another Cluster, and Endpoint the user's, where a warning is about its specification, that Cluster, or that endpoint.
	Itself, Other, Endpoint string
	// Node is one that is of no Machine.
	Node string
	// Kind and Object are of the secret or configmap that a reason is about.
	Kind, Object string
}

// On is what to do about a reason of the planner's.
func (c ControlPlane) On(reason string) []string {
	w := Words{"ns": c.Namespace, "name": c.Name, "cluster": c.Cluster, "machine": c.Machine, "deployment": c.Deployment, "infra": c.Infra,
		"itself": c.Itself, "other": c.Other, "endpoint": c.Endpoint, "kind": c.Kind, "object": c.Object,
		"node": c.Node}
	if c.Deployment == "" {
		w["lone"] = c.Machine
	}
	return w.Fill(controlPlane[reason]...)
}

const (
	nextEditControlPlane = "Change it: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"
	nextSeeReleases      = "See which releases are known: docs/releases.md says how to add some"
	nextSeeSecrets       = "See which Secrets there are: kubectl get secrets -n {ns}"
	nextSeeAgent         = "Look on the server whether the agent runs and what it says: drover ssh {machine} -n {ns} -- 'systemctl status --no-pager drover-agent; journalctl -u drover-agent -n 50'"
	nextMachineLogs      = "Read what its agent says: drover logs {machine} -n {ns} --agent"
	nextSeeMachines      = "See the Machines and their labels: kubectl get machines.cluster.x-k8s.io -n {ns} --show-labels"
)

// NextStuck is for an agent that cannot go on for what is no step of its plan.
const NextStuck = "Mend on the server what it says, such as by making room where no space is left: the agent tries again by itself, within about a minute"

// controlPlane is what to do, best first.
var controlPlane = map[string][]string{
	rkev1.KubernetesVersionMissingReason: {nextEditControlPlane},
	rkev1.KubernetesVersionUnknownReason: {nextEditControlPlane, nextSeeReleases},
	rkev1.KubernetesVersionSkewReason:    {nextEditControlPlane, nextSeeReleases},
	rkev1.ReleasesInvalidReason:          {nextSeeReleases},
	rkev1.NoEtcdMachineReason:            {nextSeeMachines},
	rkev1.NoControlPlaneMachineReason:    {nextSeeMachines},
	rkev1.EtcdLostReason: {
		"If an earlier Cluster of this name has left that Secret, and nobody needs its data or snapshots, delete it, and this cluster is made: kubectl delete {kind} {object} -n {ns}",
		"Nothing brings the data back but a snapshot, and restoring one is not built yet: make another cluster and restore there",
		"See what is left: kubectl get machines.cluster.x-k8s.io -n {ns}",
	},
	rkev1.OwnerUnknownReason:  {nextSeeMachines},
	rkev1.DeletingReason:      {nextSeeMachines},
	rkev1.MachinesExistReason: {"Delete the whole cluster, if that was meant: kubectl delete clusters.cluster.x-k8s.io {cluster} -n {ns}", nextSeeMachines},
	rkev1.WaitingForOwnerReason: {
		"If a Cluster names it and does not take it up, touch that; by itself Cluster API tries again within a quarter of an hour: " +
			"kubectl annotate clusters.cluster.x-k8s.io {cluster} -n {ns} --overwrite drover.cattle.io/touched=again",
	},
	rkev1.ClusterHasAnotherReason: {
		"See which control plane the Cluster has: kubectl get clusters.cluster.x-k8s.io -n {ns} -o yaml",
		"If the Cluster's servers were made with this one, have spec.controlPlaneRef name it again: kubectl edit clusters.cluster.x-k8s.io {cluster} -n {ns}",
		"If nobody needs this one, delete it: kubectl delete rkecontrolplanes.rke.cattle.io {name} -n {ns}",
	},
	rkev1.AuthorityInvalidReason: {"Mend the Secret that the message names, or delete it before there is a server, to have one made: kubectl get secrets -n {ns}"},
	rkev1.EndpointInvalidReason: {
		"Correct the RKECluster's spec.controlPlaneEndpoint, which goes before the Cluster's: kubectl get rkeclusters.rke.cattle.io,clusters.cluster.x-k8s.io -n {ns} -o yaml",
	},
	rkev1.ClusterSecretMissingReason: {
		"Bring the Secret that the message names back from a backup, without its ownerReferences, which the control plane sets again: with another Secret, " +
			"the cluster's servers and the manager would not know each other",
		"If this is a copy of a control plane, for a cluster that is yet to be made: kubectl annotate rkecontrolplanes.rke.cattle.io {name} -n {ns} " + rkev1.BootstrappedAnnotation + "-",
	},
	rkev1.WarningsReason: {
		"Change it: kubectl edit rkecontrolplanes.rke.cattle.io {itself} -n {ns}",
		"Give it a control plane of its own: kubectl edit clusters.cluster.x-k8s.io {other} -n {ns}",
		"Leave the version as it is, or take it out where all machines may be replaced, never the only server: kubectl edit machinedeployments.cluster.x-k8s.io {deployment} -n {ns}",
		"Take the version out: kubectl edit machines.cluster.x-k8s.io {lone} -n {ns}",
		"Delete a Node whose server is gone, or another Machine's by now, whose kubelet is then started again: drover kubeconfig {cluster} -n {ns} --file {cluster}.yaml && kubectl --kubeconfig {cluster}.yaml delete node {node}",
		"Open the way from the manager to {endpoint}, or correct the RKECluster's spec.controlPlaneEndpoint: kubectl get rkeclusters.rke.cattle.io -n {ns} -o yaml",
	},
	rkev1.APINotReachedReason: {
		"Open the way from the manager to the address in the message: a firewall, a network, or an address in the RKECluster's spec.controlPlaneEndpoint",
		nextSeeMachines,
	},
	rkev1.ReferencesExceededReason: {"Name fewer objects, or put less into them: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"},
	rkev1.PlansExceededReason:      {"Make another cluster for some of the machines, or see who else writes plan Secrets: kubectl get secrets -n {ns} --field-selector type=rke.cattle.io/machine-plan"},
	rkev1.ConfigInvalidReason:      {nextEditControlPlane},
	rkev1.MachineInvalidReason: {
		"Correct the annotation in the template of its MachineDeployment, which passes it on to its Machines and replaces none: kubectl edit machinedeployments.cluster.x-k8s.io {deployment} -n {ns}",
		"Correct the annotation: kubectl edit machines.cluster.x-k8s.io {lone} -n {ns}",
		"Where the message names spec.common, correct it here, and in the machine template for later machines: kubectl edit {infra} -n {ns}",
	},
	rkev1.RegistrySecretMissingReason: {nextSeeSecrets, nextEditControlPlane},
	rkev1.RegistrySecretInvalidReason: {nextSeeSecrets, nextEditControlPlane},
	rkev1.FileSourceMissingReason:     {"See which there are: kubectl get {kind}s -n {ns}", nextEditControlPlane},
	rkev1.FileSourceNotAuthorizedReason: {
		"Share it; where the annotation lists other clusters, name them too, separated by commas, with --overwrite: kubectl annotate {kind} {object} -n {ns} " +
			rkev1.AuthorizedForClustersAnnotation + "={cluster}",
		nextEditControlPlane,
	},
	rkev1.FileSourceInvalidReason:          {nextEditControlPlane},
	rkev1.SnapshotCredentialMissingReason:  {nextSeeSecrets, nextEditControlPlane},
	rkev1.SnapshotCredentialInvalidReason:  {nextSeeSecrets, nextEditControlPlane},
	rkev1.NoRoleReason:                     {nextSeeMachines},
	rkev1.OperatingSystemUnsupportedReason: {nextSeeMachines},
	rkev1.TierUnsupportedReason:            {"Scale down the MachineDeployment that it belongs to: kubectl get machinedeployments.cluster.x-k8s.io -n {ns}"},
	rkev1.WaitingForServerReason:           {"See how its server stands: drover why {machine} -n {ns}"},
	rkev1.NodeOfEarlierServerReason: {
		"If the earlier server still runs, remove it at its cloud: the Node then goes by itself",
		"If the machine's server has taken the Node over, delete that: drover kubeconfig {cluster} -n {ns} --file {cluster}.yaml && kubectl --kubeconfig {cluster}.yaml delete node {object}",
		"Then start its kubelet again, which registers a Node once, when it starts: drover ssh {machine}" + restartKubelet,
	},
	rkev1.WaitingForAgentReason: {nextSeeAgent, "If it says that its token or key is not known, have it let in anew, as docs/endpoint.md tells", nextMachineLogs},
	rkev1.AgentSilentReason: {
		nextSeeAgent,
		"If the server is gone for good, and is not the cluster's only one, which has its data: kubectl delete machines.cluster.x-k8s.io {machine} -n {ns}",
	},
	rkev1.RetryingPlanReason:        {nextMachineLogs, "Take the change back, which overtakes it: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"},
	rkev1.AgentStuckReason:          {NextStuck, "See the room on its disks: drover ssh {machine} -n {ns} -- df -h", nextMachineLogs},
	rkev1.PlanFailedReason:          {nextMachineLogs, "Take the change back, which overtakes it: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"},
	rkev1.ServerURLMissingReason:    {"Give the manager the address by which servers reach it: its flag --server-url"},
	rkev1.ControlPlaneForeignReason: {"See what the Cluster names: kubectl get clusters.cluster.x-k8s.io -n {ns} -o yaml"},
	rkev1.ControlPlaneTakenReason: {
		"Give it an RKEControlPlane of its own in spec.controlPlaneRef, also before you delete it, for what a Cluster names is deleted with it: kubectl edit clusters.cluster.x-k8s.io {cluster} -n {ns}",
	},
	rkev1.TokenReplayedReason:         {"If you do not know why, have another server made: kubectl delete machines.cluster.x-k8s.io {machine} -n {ns}"},
	rkev1.RegistrationsRefusedReason:  {"Look at what runs at the address that the event names. A server of yours that was off while its bootstrap Secret was made anew needs another machine"},
	rkev1.CertificateUnverifiedReason: {"Put the authority that signed the certificate into ca.crt of the Secret that --agents-cert-secret names"},
	rkev1.CertificateAnnouncedReason:  {"Wait until then; to have it shown at once, see docs/endpoint.md"},
	rkev1.ProbesFailingReason: {
		"Read the distribution's own log on the server: drover ssh {machine} -n {ns} -- 'journalctl -u k3s -u k3s-agent -u rke2-server -u rke2-agent -n 50 --no-pager'",
		nextMachineLogs, "If it began with a change, take that back: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}",
	},
	rkev1.WaitingForProbesReason: {nextMachineLogs, "Look at the distribution's own log on the server: drover ssh {machine} -n {ns}"},
}
