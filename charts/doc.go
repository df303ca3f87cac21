// Package charts holds what an installation is made of: the Helm chart in drover/, our static CRDs and the manager's role
// as controller-gen writes them, and the same objects as the chart's, built from typed values for those who have no helm.
//
// It reads and writes nothing. Who asks: `manager manifests` (Objects), package install (CRDs).
package charts
