// Package joblimit decides which machines may start a Job while only so many may run at once.
//
// It reads nothing and writes nothing: package machine asks before each Job, tells of those that run, and is told who goes next. All is in
// memory; after a restart the Jobs that run are told first.
package joblimit
