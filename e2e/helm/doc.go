// Package helm renders our chart with Helm's own engine and compares it with `manager manifests`,
// which renders it without Helm: users of helm and users of kubectl get the same objects. It is a
// module of its own, because only this test needs Helm.
package helm
