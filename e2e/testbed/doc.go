// Package testbed brings the whole of Drover up on one machine: a real Kubernetes (localkube) with
// real containers, the local cloud with real servers, the manager as a Deployment, drivers and
// credentials registered.
//
// It serves make up, make demo and the stories, and takes every trace away again.
package testbed
