// Package bench measures the whole manager as users run it: its own process, against a real API
// server, with machines whose Jobs take no time. A proxy between the two counts the requests. `make
// bench` runs it at several sizes, and `make bench-check` compares the cost of a machine with the
// recorded cost. See docs/performance.md.
package bench
