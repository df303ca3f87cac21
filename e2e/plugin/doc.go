// Command plugin is a docker-machine driver plugin of our own, built as
// docker-machine-driver-drovertest, for tests of external drivers.
//
// It makes servers on the local cloud through its API, has a flag of every
// type and shape that fields must be made of, and can be told to fail. It is
// started by libmachine, never by hand.
package main
