// Package listing turns facts into what `drover get` prints: a summary per machine or driver with a stable JSON form
// (docs/cli.md), and table rows. It is pure.
package listing
