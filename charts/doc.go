// Package charts holds the parts of an installation: the Helm chart in drover/ with our static CRDs
// and the manager's role, as controller-gen writes them, and the rendered chart for users without
// helm.
//
// It reads and writes nothing. Its users: `manager manifests` (Objects), package install (CRDs).
package charts
