// Package server says what a computer of the local cloud is, and holds the
// backend whose computers exist only as entries in a table.
//
// The account describes a computer with a Spec and hands it to a Backend:
// Instant here for load, or package nspawn for real ones.
package server
