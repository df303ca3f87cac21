// Command localcloud serves the local cloud and controls a running one.
//
// serve reads flags, keeps everything in a state directory and listens until it is stopped. The
// running cloud executes the other commands; it is found through the state directory. clean works
// without a running cloud, also after a crash.
package main
