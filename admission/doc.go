// Package admission rejects objects before they are stored: machines, templates and configs of an
// unknown driver, or with options that conflict with bootstrap data; credentials that do not exist
// or may not be used; NodeDrivers that could not work; and edits of machine templates. Controllers
// validate everything again, because an object that exists at admission may be gone later.
//
// It reads: the request, NodeDrivers (cached), the metadata of one credential Secret and one CRD
// (live). It writes nothing; package install applies Configuration and Policies. The decisions are
// in docs/decisions.
package admission
