// Package helm renders our chart with Helm's own engine and compares it with `manager manifests`, which renders it without: who installs with helm
// and who installs with kubectl get the same objects. It is a module of its own, for nothing but this test needs Helm.
package helm
