// Package joblog decides where the log of a machine's attempt is: in the pod of a Job that runs, in
// the state Secret when it has ended, or in the machine's status when that cannot be read. Deciding
// is pure; Stream and AwaitPod read pods.
package joblog
