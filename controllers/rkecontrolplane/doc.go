// Package rkecontrolplane takes what is seen of a cluster to the planner and carries out what that decides: it makes the cluster's authorities and
// tokens, writes plans into the plan Secrets, keeps the kubeconfig, and tells on RKEControlPlane and Machines what is waited for.
//
// It reads: RKEControlPlanes, their Cluster, RKECluster, Machines, RKEBootstraps and <X>Machines; plan Secrets (plans.go keeps in memory what the
// planner reads of them); Secrets and ConfigMaps that the specification names; the catalogue of releases. It writes: the status; Secrets
// <cluster>-ca, -cca, -proxy, -etcd, -etcd-peer, -sa, -kubeconfig and <control plane>-rke-state; of plan Secrets the planner's keys, label and
// annotations (api/plan), also of machines that are being deleted, whose hosts are cleaned by plan (clean.go); of Machines the conditions
// Reconciled and PlanApplied. Package planner decides, the agent on each server obeys.
package rkecontrolplane
