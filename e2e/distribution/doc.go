// Package distribution makes a distribution of Kubernetes for test servers, without the internet:
// localkube as an installer image in the shape of k3s' (a program run.sh, a binary k3s, units of
// systemd), and a registry to pull it from. Which servers there are, and where, it does not know.
package distribution
