// Package docs is the documentation. It has no code: its tests compare the pages with the code.
package docs
