// Package live holds the tests that run the localkube binary as a user does. They need
// bin/localkube (make build, or LOCALKUBE for another one); the node's test also needs root and a
// machine that is not a node yet.
//
// They are separate from the main package so that testing does not compile Kubernetes a second
// time.
package live
