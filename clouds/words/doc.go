// Package words has no code but tests: it holds package clouds against the drivers that are linked and the libraries they use
// at the clouds. They are large, and package clouds is fuzzed, for which everything that is linked is compiled once more.
package words
