// Package crdgen is stage 2 of the data flow: it turns what a driver says about its flags into Kubernetes kinds, and an
// object of such a kind back into the driver's options. It is pure: no files, no network, no clients.
//
//	flags ──FieldsOf──▶ fields ──CRDs──▶ <X>Config, <X>MachineTemplate, <X>Machine
//	object's spec + fields ──Options──▶ values and files for the driver; a credential: see package credential
//
// It reads: the flag list (driver/builtin.json or a probe's result) and the NodeDriver's annotations (Rules).
// It writes: nothing; its objects are applied by controllers/nodedriver, its options are used by jobrunner.
// The fields travel on the CRD itself, as the annotation FieldsAnnotation, so that whoever watches a kind can read its
// objects without the NodeDriver: FieldsFromCRD.
package crdgen
