// Package jobrunner is stage 4: it turns a machine into the Job that creates or removes its server, and a finished Job
// into an outcome.
//
// It reads the facts of one machine (driver, options, credential, bootstrap data) and writes, through pure builders, the
// request Secret, the service account with its role, and the Job; it reads back the result document that the pod left in
// the state Secret. What runs inside the pod is package jobrunner/operation. The machine controller comes next.
package jobrunner
