package main

import (
	"bytes"
	"io"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// opener gives a fresh reader of the same bytes each time it is called.
func opener(content []byte) tarball.Opener {
	return func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}
}
