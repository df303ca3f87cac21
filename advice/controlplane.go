package advice

import (
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// ControlPlane holds the names for advice about an RKEControlPlane and, if the advice is about a
// machine, about that machine. Unknown names are empty.
type ControlPlane struct {
	// Cluster is the name with which objects are shared with the cluster, usually the Cluster's
	// name.
	Namespace, Name, Cluster, Machine string
	// Deployment is the machine's MachineDeployment, empty for a Machine without one; Infra is its
	// infra machine, as resource/name.
	Deployment, Infra string
	// Itself is the control plane, Other another Cluster, and Endpoint the user's endpoint, if a
	// warning is about one of them.
	Itself, Other, Endpoint string
	// Node is a Node that belongs to no Machine.
	Node string
	// Kind and Object identify the secret or configmap that a reason is about. Kind is in lower
	// case.
	Kind, Object string
	// Field is the field of spec.registries that names the Secret.
	Field string
	// Running is the version of the cluster's servers.
	Running string
	// Rendered is true if a provisioning Cluster of the same name writes the control plane: the
	// user edits that Cluster.
	Rendered bool
}

// On returns the advice for a reason of the planner.
func (c ControlPlane) On(reason string) []string {
	w := Words{"ns": c.Namespace, "name": c.Name, "cluster": c.Cluster, "machine": c.Machine, "deployment": c.Deployment, "infra": c.Infra,
		"itself": c.Itself, "other": c.Other, "endpoint": c.Endpoint, "kind": c.Kind, "object": c.Object,
		"node": c.Node, "running": c.Running}
	if c.Deployment == "" {
		w["lone"] = c.Machine
	}
	if c.Kind != "" {
		w[c.Kind] = c.Object
	}
	switch c.Field {
	case "authConfigSecretName":
		w["auth"] = c.Object
	case "tlsSecretName":
		w["tls"] = c.Object
	}
	texts := slices.Clone(controlPlane[reason])
	if c.Rendered {
		for i := range texts {
			texts[i] = rendered.Replace(texts[i])
		}
	}
	return w.Fill(texts...)
}

// rendered replaces commands that change a rendered object by the ones that change its provisioning
// Cluster, which has the same name.
var rendered = strings.NewReplacer(
	"kubectl edit rkecontrolplanes.rke.cattle.io", "kubectl edit clusters.provisioning.cattle.io",
	"kubectl delete clusters.cluster.x-k8s.io", "kubectl delete clusters.provisioning.cattle.io",
)

const (
	nextEditControlPlane = "Change it: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"
	nextSetVersion       = "Set spec.kubernetesVersion to a release of the catalogue: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"
	nextSeeReleases      = "See docs/releases.md for the known releases and how to add more"
	nextSeeSecrets       = "List the Secrets: kubectl get secrets -n {ns}"
	makeRegistryAuth     = "kubectl create secret generic {auth} -n {ns} --type=kubernetes.io/basic-auth --from-file=username=FILE --from-file=password=FILE"
	makeRegistryTLS      = "kubectl create secret tls {tls} -n {ns} --cert=FILE --key=FILE"
	nextSeeAgent         = "Check on the server whether the agent runs, and read its log: drover ssh {machine} -n {ns} -- 'systemctl status --no-pager drover-agent; journalctl -u drover-agent -n 50'"
	nextDistribution     = "Read the log of k3s or RKE2 on the server: drover ssh {machine} -n {ns} -- 'sudo journalctl -u k3s -u k3s-agent -u rke2-server -u rke2-agent -n 50 --no-pager'"
	nextAuthorize        = " && kubectl annotate {kind} {object} -n {ns} " + rkev1.AuthorizedForClustersAnnotation + "={cluster}"
	nextMachineLogs      = "Read the agent's report: drover logs {machine} -n {ns} --agent"
	nextSeeMachines      = "List the Machines and their labels: kubectl get machines.cluster.x-k8s.io -n {ns} --show-labels"
)

// NextStuck is for an agent with a problem outside of the steps of its plan.
const NextStuck = "Fix the problem that the message names on the server, for example free disk space. The agent retries automatically, within about a minute"

// controlPlane holds the advice by reason, best first.
var controlPlane = map[string][]string{
	rkev1.KubernetesVersionMissingReason: {nextSetVersion},
	rkev1.KubernetesVersionUnknownReason: {nextSetVersion, nextSeeReleases},
	rkev1.KubernetesVersionSkewReason: {
		"Set spec.kubernetesVersion to {running} again, or to another release that the message allows: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}",
		nextSeeReleases,
	},
	rkev1.ReleasesInvalidReason:       {nextSeeReleases},
	rkev1.NoEtcdMachineReason:         {nextSeeMachines},
	rkev1.NoControlPlaneMachineReason: {nextSeeMachines},
	rkev1.EtcdLostReason: {
		"If this namespace was restored from a backup, keep the {kind} {object}, and restore the Machine with etcd and its state Secret, too. See what is there: kubectl get machines.cluster.x-k8s.io,secrets -n {ns}",
		"If you have a snapshot, create the cluster again and restore the snapshot there, as docs/clusters.md#on-a-new-server describes",
		"Only if this namespace was not restored, and the Secret belongs to an earlier Cluster of this name whose data and snapshots you do not need, delete the Secret. " +
			"No snapshot can be read without it. Drover then creates this cluster: kubectl delete {kind} {object} -n {ns}",
		nextSeeMachines,
	},
	rkev1.OwnerUnknownReason:  {nextSeeMachines},
	rkev1.DeletingReason:      {nextSeeMachines},
	rkev1.MachinesExistReason: {"To delete the whole cluster: kubectl delete clusters.cluster.x-k8s.io {cluster} -n {ns}", nextSeeMachines},
	rkev1.WaitingForOwnerReason: {
		"If a Cluster names it but does not become its owner, trigger a reconcile of the Cluster. Otherwise Cluster API retries within 15 minutes: " +
			"kubectl annotate clusters.cluster.x-k8s.io {cluster} -n {ns} --overwrite drover.cattle.io/touched=again",
	},
	rkev1.ClusterHasAnotherReason: {
		"See which control plane the Cluster names: kubectl get clusters.cluster.x-k8s.io -n {ns} -o yaml",
		"If the Cluster's servers were created with this control plane, name it in spec.controlPlaneRef again: kubectl edit clusters.cluster.x-k8s.io {cluster} -n {ns}",
		"If this control plane is not needed, delete it: kubectl delete rkecontrolplanes.rke.cattle.io {name} -n {ns}",
	},
	rkev1.AuthorityInvalidReason: {"Correct the Secret that the message names. While the cluster has no server, you can also delete it, and Drover creates a new one: kubectl get secrets -n {ns}"},
	rkev1.EndpointInvalidReason: {
		"Correct spec.controlPlaneEndpoint of the RKECluster, which takes precedence over that field of the Cluster: kubectl get rkeclusters.rke.cattle.io,clusters.cluster.x-k8s.io -n {ns} -o yaml",
	},
	rkev1.ClusterSecretMissingReason: {
		"Restore the Secret that the message names from a backup, without its ownerReferences (the control plane sets them again). With a different Secret, " +
			"the cluster's servers and the manager cannot authenticate each other",
		"If this is a copy of a control plane for a cluster that does not exist yet: kubectl annotate rkecontrolplanes.rke.cattle.io {name} -n {ns} " + rkev1.BootstrappedAnnotation + "-",
	},
	rkev1.WarningsReason: {
		"Change it: kubectl edit rkecontrolplanes.rke.cattle.io {itself} -n {ns}",
		"Give that Cluster its own control plane: kubectl edit clusters.cluster.x-k8s.io {other} -n {ns}",
		"Keep the version, or remove it if all machines may be replaced. Never remove it for the only server of a cluster: kubectl edit machinedeployments.cluster.x-k8s.io {deployment} -n {ns}",
		"Remove the version: kubectl edit machines.cluster.x-k8s.io {lone} -n {ns}",
		"Delete the Node if its server is gone or now belongs to another Machine. In the second case, restart the kubelet afterwards: drover kubeconfig {cluster} -n {ns} --file {cluster}.yaml && kubectl --kubeconfig {cluster}.yaml delete node {node}",
		"Allow connections from the manager to {endpoint}, or correct spec.controlPlaneEndpoint of the RKECluster: kubectl get rkeclusters.rke.cattle.io -n {ns} -o yaml",
	},
	rkev1.APINotReachedReason: {
		"Allow connections from the manager to the address in the message. Check firewalls, routes and spec.controlPlaneEndpoint of the RKECluster",
		nextSeeMachines,
	},
	rkev1.ReferencesExceededReason: {"Reference fewer objects, or make them smaller: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"},
	rkev1.PlansExceededReason:      {"Move some machines to another cluster. Check whether another client writes plan Secrets: kubectl get secrets -n {ns} --field-selector type=rke.cattle.io/machine-plan"},
	rkev1.ConfigInvalidReason:      {nextEditControlPlane},
	rkev1.MachineInvalidReason: {
		"Correct the annotation in the template of its MachineDeployment. It is copied to existing Machines, and no machine is replaced: kubectl edit machinedeployments.cluster.x-k8s.io {deployment} -n {ns}",
		"Correct the annotation: kubectl edit machines.cluster.x-k8s.io {lone} -n {ns}",
		"If the message names spec.common, correct it here, and in the machine template for future machines: kubectl edit {infra} -n {ns}",
	},
	rkev1.RegistrySecretMissingReason: {
		"Create the Secret from files that contain only the value: " + makeRegistryAuth,
		"Create the Secret: " + makeRegistryTLS,
		nextSeeSecrets, nextEditControlPlane,
	},
	rkev1.RegistrySecretInvalidReason: {
		"The type of a Secret is immutable. Delete the Secret, and create it again from files that contain only the value: kubectl delete secret {auth} -n {ns}; " + makeRegistryAuth,
		"The type of a Secret is immutable. Delete the Secret, and create it again: kubectl delete secret {tls} -n {ns}; " + makeRegistryTLS,
		nextSeeSecrets, nextEditControlPlane,
	},
	rkev1.FileSourceMissingReason: {
		"Create the Secret, and authorize the cluster: kubectl create secret generic {secret} -n {ns} --from-file=KEY=FILE" + nextAuthorize,
		"Create the ConfigMap, and authorize the cluster: kubectl create configmap {configmap} -n {ns} --from-file=KEY=FILE" + nextAuthorize,
		"List the objects of this kind: kubectl get {kind}s -n {ns}", nextEditControlPlane,
	},
	rkev1.FileSourceNotAuthorizedReason: {
		"Authorize the cluster. If the annotation already lists other clusters, include them, separated by commas, and add --overwrite: kubectl annotate {kind} {object} -n {ns} " +
			rkev1.AuthorizedForClustersAnnotation + "={cluster}",
		nextEditControlPlane,
	},
	rkev1.FileSourceInvalidReason: {nextEditControlPlane},
	rkev1.SnapshotCredentialMissingReason: {
		"Create the Secret from files that contain only the value: kubectl create secret generic {secret} -n {ns} --from-file=accessKey=FILE --from-file=secretKey=FILE",
		nextSeeSecrets, nextEditControlPlane,
	},
	rkev1.SnapshotCredentialInvalidReason:  {nextSeeSecrets, nextEditControlPlane},
	rkev1.NoRoleReason:                     {nextSeeMachines},
	rkev1.OperatingSystemUnsupportedReason: {nextSeeMachines},
	rkev1.TierUnsupportedReason: {
		"If a rollout created this machine, undo the rollout. Remove spec.rollout.after if it is set: " +
			`kubectl -n {ns} patch machinedeployments.cluster.x-k8s.io {deployment} --type=json -p '[{"op":"remove","path":"/spec/rollout/after"}]'`,
		"If the template of its MachineDeployment was changed, set the earlier infrastructureRef and bootstrap again: kubectl edit machinedeployments.cluster.x-k8s.io {deployment} -n {ns}",
		"If spec.replicas is 2 or more, delete this machine, which has no Node, and set replicas to 1. Never set it to 0, because this deletes the cluster's server and its data: " +
			"kubectl -n {ns} annotate machines.cluster.x-k8s.io {machine} " + clusterv1.DeleteMachineAnnotation + "=yes && kubectl -n {ns} scale machinedeployments.cluster.x-k8s.io {deployment} --replicas=1",
		"Delete this machine, which has no Node: kubectl delete machines.cluster.x-k8s.io {lone} -n {ns}",
	},
	rkev1.WaitingForServerReason: {"See the state of its server: drover why {machine} -n {ns}"},
	rkev1.DuplicateServersReason: {"Delete the Machine, which removes all its servers; its MachineSet makes another: kubectl delete machines.cluster.x-k8s.io {lone} -n {ns}"},
	rkev1.NodeOfEarlierServerReason: {
		"If the earlier server still runs, remove it in the cloud. The Node is then removed automatically",
		"If the machine's server now uses the Node's name, delete the Node: drover kubeconfig {cluster} -n {ns} --file {cluster}.yaml && kubectl --kubeconfig {cluster}.yaml delete node {object}",
		"Then restart the kubelet, which registers its Node only when it starts: drover ssh {machine}" + restartKubelet,
	},
	rkev1.WaitingForAgentReason: {nextSeeAgent, "If the log says that the token or key is unknown, let the agent register again as docs/endpoint.md describes", nextMachineLogs},
	rkev1.AgentSilentReason: {
		nextSeeAgent,
		"If the server is lost, delete its Machine. Never delete the cluster's only server, which holds the cluster's data: kubectl delete machines.cluster.x-k8s.io {machine} -n {ns}",
	},
	rkev1.RetryingPlanReason: {nextMachineLogs, "Revert the change that caused this plan; Drover then replaces the plan: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"},
	rkev1.AgentStuckReason:   {NextStuck, "Check the free space on its disks: drover ssh {machine} -n {ns} -- df -h", nextMachineLogs},
	rkev1.PlanFailedReason: {nextMachineLogs, "If you corrected the server, let the agent apply the plan again: drover retry {machine} -n {ns}",
		"Revert the change that caused this plan; Drover then replaces the plan: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}"},
	rkev1.ServerURLMissingReason:    {"Set the manager's flag --server-url to the address at which servers reach the manager"},
	rkev1.ControlPlaneForeignReason: {"See which objects the Cluster names: kubectl get clusters.cluster.x-k8s.io -n {ns} -o yaml"},
	rkev1.ControlPlaneTakenReason: {
		"Name a separate RKEControlPlane in spec.controlPlaneRef. Do this before you delete the Cluster, because the control plane that it names is deleted with it: kubectl edit clusters.cluster.x-k8s.io {cluster} -n {ns}",
	},
	rkev1.TokenReplayedReason:         {"If you cannot explain it, replace the server: kubectl delete machines.cluster.x-k8s.io {machine} -n {ns}"},
	rkev1.RegistrationsRefusedReason:  {"Check which host has the address in the event. If it is your server, and it was off while its bootstrap Secret was created again, replace its machine"},
	rkev1.CertificateUnverifiedReason: {"Add the authority that signed the certificate to ca.crt of the Secret that --agents-cert-secret names"},
	rkev1.CertificateAnnouncedReason:  {"Wait until then. To serve it immediately, see docs/endpoint.md"},
	rkev1.ProbesFailingReason: {
		nextDistribution,
		nextMachineLogs, "If a change caused it, revert the change: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}",
	},
	rkev1.KubernetesVersionDiffersReason: {
		"Check which release the installer's image contains. A mirror or private registry may have another release under the image's name: kubectl get rkecontrolplanes.rke.cattle.io {name} -n {ns} -o yaml",
		"After you have corrected the registry, install again with another number in spec.provisionGeneration: kubectl edit rkecontrolplanes.rke.cattle.io {name} -n {ns}",
		nextDistribution,
	},
	rkev1.ServerTokenChangedReason: {
		"Print the server's token. The value is the part after the last colon: drover ssh {machine} -n {ns} -- 'sudo cat /var/lib/rancher/k3s/server/token /var/lib/rancher/rke2/server/token'",
		`Set serverToken to that value again: kubectl patch secret {object} -n {ns} --type=merge -p '{"stringData":{"serverToken":"TOKEN"}}'`,
	},
	rkev1.WaitingForProbesReason: {nextMachineLogs, nextDistribution},
	rkev1.AddressChangedReason: {
		"Configure the network so that the server always gets its recorded address, and restart the server",
		"Or let the plan use the new address: kubectl annotate machines.cluster.x-k8s.io {machine} -n {ns} --overwrite rke.cattle.io/internal-address=ADDRESS",
		"On the cluster's server, etcd must also take the new address: see docs/troubleshooting.md#addresschanged",
	},
}
