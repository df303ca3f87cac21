// Package controllers holds one package per loop. Each object, or group of fields, has one writer:
//
//	object or fields                                  written by          read by
//	------------------------------------------------  ------------------  ------------------------------------------------
//	provisioning Cluster spec, <X>Config              user                provisioningcluster
//	provisioning Cluster status, finalizer,
//	  annotation rendered; owner of an <X>Config      provisioningcluster CLI, user
//	provisioning Cluster status.clusterName,
//	  condition ManagementCluster, annotation
//	  management-cluster-name                         managementcluster   provisioningcluster, CLI, user
//	management Cluster spec.description               user                user
//	management Cluster, everything else               managementcluster   user
//	deletion of a provisioning Cluster, after its
//	  management Cluster's                            managementcluster   provisioningcluster
//	CAPI Cluster, RKECluster, RKEControlPlane,
//	  RKEBootstrapTemplate, MachineDeployments,
//	  MachineHealthChecks, <X>MachineTemplates of
//	  a provisioning Cluster                          provisioningcluster Cluster API, machine, rkecontrolplane
//	NodeDriver spec                                   user                nodedriver, machine
//	predefined NodeDriver that was deleted            nodedriver          nodedriver, user
//	NodeDriver status, finalizer                      nodedriver          machine, CLI
//	probe Job, its Secrets, account and Role          nodedriver          the probe's pod
//	probe's result Secret, data but verdict.json      probe's pod         nodedriver
//	probe's result Secret, verdict.json               nodedriver          nodedriver
//	ConfigMaps driver-<digest>-<i>                    probe's pod         pods of all Jobs; nodedriver deletes the useless
//	CRDs of a driver                                  nodedriver          machine (starts and stops the kind), Cluster API
//	RKECluster status; spec.controlPlaneEndpoint of
//	  an RKEControlPlane's, where the user gave none  rkecluster          Cluster API, rkecontrolplane
//	ServerScan spec                                   user, CLI           serverscan
//	ServerScan periodic-…, whole                      serverscan          CLI, user
//	ServerScan status; its Jobs, Secrets, Role        serverscan          CLI; Job's pod
//	<X>Machine spec but providerID                    user, CAPI          machine
//	<X>Machine spec.providerID, status, finalizer,
//	  label rke.cattle.io/capi-machine-name           machine             Cluster API, CLI
//	<X>Machine annotation clean-by-plan               machine             rkecontrolplane
//	<X>Machine condition ServerExists, once there     serverscan          machine, Cluster API, CLI
//	state Secret: metadata (owner, finalizer, claim)  machine             machine
//	state Secret: data but verdict.json               Job's pod           machine, CLI
//	state Secret: verdict.json                        machine             machine
//	Secret <m>-machine-credential                     machine             machine
//	request Secret                                    machine             Job's pod; deleted when the Job has ended
//	service account, Role, RoleBinding <m>-machine    machine             Job's pod
//	Job <m>-create-<n>, <m>-rm-<n>                    machine             machine, CLI
//	ServerScan status                                 serverscan          CLI
//	a scan's Job, its Secrets, account and Role       serverscan          the scan's pod
//	RKEBootstrap status, label machine-id             rkebootstrap        Cluster API
//	bootstrap Secret of an RKEBootstrap               rkebootstrap        machine; copied into the request Secret
//	its annotation create-attempt                     machine             rkebootstrap
//	plan Secret: metadata, token hash; its account    rkebootstrap        endpoint/agents, rkecontrolplane
//	plan Secret: plan, label init-node, annotations   rkecontrolplane     agents, machine; the other keys: api/plan
//	RKEControlPlane status                            rkecontrolplane     Cluster API, CLI
//	Secrets <cluster>-ca, -cca, -proxy, -etcd,
//	  -etcd-peer, -sa, unless the user made them      rkecontrolplane     rkecontrolplane; in the first server's plan
//	Secret <cluster>-kubeconfig                       rkecontrolplane     Cluster API, capi/workload, CLI
//	Secret <control plane>-rke-state                  rkecontrolplane     rkecontrolplane; in plans
//	deletion of the Machine of a lone <X>Machine      machine             Cluster API
//	Machine conditions Reconciled, PlanApplied        rkecontrolplane     CLI
//	Machine spec.version, what its server runs        rkecontrolplane     Cluster API
//	Machine label cluster.x-k8s.io/control-plane      rkecontrolplane     Cluster API
//	bootstrap Secret, credential Secret               others              machine; copied into the request Secret
//	their label clusterctl.cluster.x-k8s.io/move      machine             clusterctl
//	that label of objects that RKEControlPlanes name  rkecontrolplane     clusterctl
//
// Package step is the kit that the loops are made of, and package attempt runs their Jobs.
package controllers
