// Package config reads the configuration of `k3s server` and `k3s agent`: config.yaml and the files
// in config.yaml.d beside it, as k3s reads them. It is for localkube in the packaging of k3s (see
// package distribution); `localkube server` takes flags instead.
package config
