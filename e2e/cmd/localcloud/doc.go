// Command localcloud serves the local cloud and steers one that runs.
//
// serve reads flags, keeps everything in a state directory and listens until
// it is told to stop. The other commands are done by the running cloud, which is
// found through the state directory; clean works without one, also after a crash.
package main
