// Package rkecontrolplane takes a snapshot of a cluster to the planner and carries out its
// decisions. It creates the cluster's authorities and tokens, writes plans into the plan Secrets,
// maintains the kubeconfig, and reports on RKEControlPlane and Machines why they wait.
//
// It reads: RKEControlPlanes, their Cluster, RKECluster, Machines, RKEBootstraps and <X>Machines;
// plan Secrets (plans.go keeps the planner's part of them in memory); Secrets and ConfigMaps that
// the specification names; the catalogue of releases. It writes: the status; Secrets <cluster>-ca,
// -cca, -proxy, -etcd, -etcd-peer, -sa, -kubeconfig and <control plane>-rke-state; of plan Secrets
// the planner's keys, label and annotations (api/plan), also for machines that are being deleted,
// whose hosts are cleaned by plan (clean.go); of Machines the conditions Reconciled and
// PlanApplied. Package planner decides; the agent on each server applies the plan.
package rkecontrolplane
