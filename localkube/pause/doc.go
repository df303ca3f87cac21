// Command pause holds a pod's namespaces open: it is the only program in
// localkube's sandbox image. As PID 1 of pods that share a PID namespace it
// also reaps orphans.
package main
