// Package words has only tests: it checks package clouds against the linked drivers and their cloud
// libraries. The libraries are large, and fuzzing package clouds compiles all linked code once
// more.
package words
