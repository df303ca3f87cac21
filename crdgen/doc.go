// Package crdgen is stage 2 of the data flow: it turns a driver's flags into Kubernetes kinds, and
// an object of such a kind back into the driver's options. It is pure: no files, no network, no
// clients.
//
//	flags ──FieldsOf──▶ fields ──CRDs──▶ <X>Config, <X>MachineTemplate, <X>Machine
//	object's spec + fields ──Options──▶ values and files for the driver; a credential: see package credential
//
// It reads the flag list (driver/builtin.json or a probe's result) and the NodeDriver's annotations
// (Rules). It writes nothing: controllers/nodedriver applies its objects, and jobrunner uses its
// options. The CRD itself carries the fields in the annotation FieldsAnnotation, so that a client
// can read a kind's objects without the NodeDriver: FieldsFromCRD.
package crdgen
