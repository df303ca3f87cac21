package testkit

import (
	"fmt"
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Option changes the server that Main provides.
type Option func(*options)

type options struct {
	crds        []*apiextensionsv1.CustomResourceDefinition
	controllers bool
	cleanups    []func() error
}

// WithCRDs installs definitions before the first test gets the server.
func WithCRDs(crds ...*apiextensionsv1.CustomResourceDefinition) Option {
	return func(o *options) { o.crds = append(o.crds, crds...) }
}

// WithControllers runs the controller manager as well: for tests that rely on
// garbage collection, service accounts or namespaces that really go.
func WithControllers() Option {
	return func(o *options) { o.controllers = true }
}

// WithCleanup calls a function when the tests have ended: Main exits, so that TestMain cannot.
func WithCleanup(cleanup func() error) Option {
	return func(o *options) { o.cleanups = append(o.cleanups, cleanup) }
}

// current is the server of this test binary. TestMain cannot hand anything to
// tests but through the package, so this is the one variable that is shared.
var current *server

// Main runs the tests of a package with a server at hand, and exits.
func Main(m *testing.M, opts ...Option) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	current = &server{options: o}
	code := m.Run()
	for _, cleanup := range append(o.cleanups, current.stop) {
		if err := cleanup(); err != nil {
			fmt.Fprintln(os.Stderr, "testkit:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// started returns the running server; the first caller starts it.
func started(tb testing.TB) *server {
	tb.Helper()
	if current == nil {
		tb.Fatal("testkit: this package has no TestMain that calls testkit.Main")
	}
	if err := current.ensure(); err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	return current
}
