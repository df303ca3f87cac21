// Package testkit gives Go tests a real API server and short ways to say what
// they expect of it.
//
// A package whose tests need one has
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// The server (localkube: etcd and kube-apiserver, no controllers) starts when
// the first test asks for it, and ends with the test binary, however that ends.
// Tests call Reconcile themselves, so nothing is waited for; only e2e polls.
package testkit
