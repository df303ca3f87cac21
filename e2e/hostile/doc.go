// Command hostile is a docker-machine plugin that does harm, for the tests. What it does is in its last bytes, so that one
// build is many drivers, each with a checksum of its own: see Mode.
package main
