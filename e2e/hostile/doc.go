// Command hostile is a malicious docker-machine plugin for the tests. Its last bytes select the
// attack, so that one build yields many drivers, each with its own checksum: see Mode.
package main
