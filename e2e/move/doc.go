// Package move moves a cluster with the real `clusterctl move` from one management cluster to another. What is real: two API servers
// with their controllers, a manager beside each, clusterctl, what runs in a Job's pod, the DigitalOcean driver as its plugin, the local
// cloud with simulated servers. What is played: the kubelets, and the Nodes of the cluster that is moved.
package move
