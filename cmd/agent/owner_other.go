//go:build !linux

package main

import "os"

// isOurs is left to the file system's own access lists.
func isOurs(os.FileInfo) bool { return true }
