// Package registries turns registries.yaml of k3s into what containerd reads: a hosts.toml for each registry, and credentials.
package registries
