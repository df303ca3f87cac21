// Package move moves a cluster with the real `clusterctl move` from one management cluster to
// another. Real parts: two API servers with their controllers, a manager beside each, clusterctl,
// the program of a Job's pod, the DigitalOcean driver as its plugin, the local cloud with simulated
// servers. Simulated parts: the kubelets, and the Nodes of the moved cluster.
package move
