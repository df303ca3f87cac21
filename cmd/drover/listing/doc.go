// Package listing turns facts into the output of `drover get`: a summary per machine or driver with
// a stable JSON form (docs/cli.md), and table rows. It is pure.
package listing
