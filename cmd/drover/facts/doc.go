// Package facts holds the CLI's view of a management cluster at one moment: machines, drivers,
// state, Jobs, pods and events, decoded from API objects and nothing else. It reads no API itself:
// package inventory fills these types, the packages listing and explain turn them into output.
// Secrets are kept as names of keys, never as values.
package facts
