// Package releases is what is known of the releases of k3s and RKE2: which there are, the image that installs one, and the arguments that its
// servers and agents take (design decision D22). It is data: default.yaml is built in, and the content of a ConfigMap of the same form takes
// its place, read by Parse, which bounds and checks it.
//
// It is pure. Next: planner/ asks it what a configuration's keys mean.
package releases
