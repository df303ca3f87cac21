// Package charts holds what an installation is made of: the Helm chart in drover/ with our static CRDs and the manager's role, as
// controller-gen writes them, and the chart rendered for those who have no helm.
//
// It reads and writes nothing. Who asks: `manager manifests` (Objects), package install (CRDs).
package charts
