// Package bench measures the whole manager as users run it: its own process, against a real API server, with machines whose
// Jobs take no time. Between the two stands a proxy that counts the requests. `make bench` runs it at several sizes, and
// `make bench-check` compares what a machine costs with what it cost before. See docs/performance.md.
package bench
