// Package fault holds the programmed failures of the local cloud.
//
// A Set is an ordered list of rules, read by package rest for each request and
// changed by tests while the cloud runs, directly or by localcloud.
// Every hit is recorded.
package fault
