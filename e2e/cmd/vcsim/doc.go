// Command vcsim is a vCenter on this machine for tests of the vSphere driver: govmomi's simulator, whose virtual machines have
// guests that are servers of the local cloud. Its state directory tells other commands where it listens and who may log in.
package main
