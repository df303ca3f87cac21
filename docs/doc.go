// Package docs is the documentation. It has no code: its tests check what the pages say against the code.
package docs
