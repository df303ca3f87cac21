// Package files serves files for download tests, such as driver binaries.
//
// It holds the files in memory. Tests put files in and switch faults on and
// off for each: missing, an HTML page in its place, wrong content, slow, cut
// short, or the whole server off. Package cloud listens for it.
package files
