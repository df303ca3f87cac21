// Package rkebootstrap is the bootstrap provider: it creates the Secret with the script that
// installs an agent on a machine's server, and the plan Secret that the agent follows.
//
// It reads: RKEBootstraps, their CAPI Machine and Cluster, the RKEControlPlane, the plan Secret's
// public key and reports. It writes: the RKEBootstrap's status and machine ID; the plan Secret's
// metadata and token hash; ServiceAccount, Role and RoleBinding of its name; the bootstrap Secret.
// Package endpoint/agents registers the agent by the token; the planner writes the plan; package
// bootstrap writes the script.
package rkebootstrap
