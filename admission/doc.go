// Package admission says no at the earliest place: to machines, templates and configs of a driver nobody knows, to
// credentials that do not exist or may not be used, to NodeDrivers that could not work, and to edits of machine templates.
// Controllers check everything again, for what is admitted now may be gone later.
//
// It reads: the request, NodeDrivers (cached), the metadata of one credential Secret (live). It writes nothing itself;
// Configuration and Policies are applied by package install. The decisions are in docs/decisions.
package admission
