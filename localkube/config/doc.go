// Package config reads what `k3s server` and `k3s agent` are told: config.yaml and the files in config.yaml.d beside it, as k3s reads them. It
// is for localkube in the packaging of k3s (see package distribution); who runs `localkube server` himself gives flags instead.
package config
