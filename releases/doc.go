// Package releases is the data about releases of k3s and RKE2: their versions, the image that
// installs one, and the arguments that its servers and agents take.
// default.yaml is built in. A ConfigMap of the same form replaces it; Parse reads, bounds and
// validates it.
//
// It is pure. planner/ asks it for the meaning of a configuration's keys.
package releases
