// Package limit has the limiters that workers and requests share. A caller takes a limiter as an
// option, so that a test can make a small one; there is no package state.
//
// It reads and writes nothing. Next: controllers, endpoint and capi acquire before they work.
package limit
