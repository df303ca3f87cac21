// Package jobrunner is stage 4: it turns a machine into the Job that creates or removes its server,
// and a finished Job into an outcome.
//
// It reads the facts of one machine (driver, options, credential, bootstrap data). Through pure
// builders it writes the request Secret, the service account with its role, and the Job. It reads
// back the result document that the pod left in the state Secret. Package jobrunner/operation runs
// inside the pod. The machine controller uses the outcome.
package jobrunner
