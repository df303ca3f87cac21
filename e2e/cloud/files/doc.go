// Package files serves files for download tests, such as driver binaries.
//
// It holds the files in memory. Tests put files in, and switch on for each that
// it is missing or that an HTML page is in its place. Package cloud listens for it.
package files
