// Package driver is stage 1 of the data flow: it turns a NodeDriver into a verified binary and the
// flags of that driver.
//
//	NodeDriver ──Validate──▶ Builtin (flags known at build time)
//	                     └─▶ Download, Verify, Unpack (in the probe's pod) ──▶ Store in the driver cache ──▶ Load in later pods
//
// It reads the NodeDriver, builtin.json (made by hack/genflags from the pinned rancher/machine),
// binaries from URLs, and the cache's ConfigMaps. It writes the cache's ConfigMaps. Flags go on to
// crdgen.
//
// No driver code is linked or run here: the probe (jobrunner) runs a binary to read its flags, and
// driver/mcnflags converts them. Failures of getting a binary are of type *Error, whose Reason is a
// condition's reason.
package driver
