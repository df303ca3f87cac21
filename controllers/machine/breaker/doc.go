// Package breaker decides which machines may ask a cloud for a server while that cloud has no room for all of them.
//
//	     refused                     made
//	free ───────▶ tripped: one asks ───────▶ recovering: one more with each server that is made ───▶ free
//	                 ▲   at a time               │ refused
//	                 └───────────────────────────┘
//
// It reads nothing and writes nothing: package machine tells it what became of attempts, and asks before each. All is in
// memory. After a restart the machines tell it again, and until all have, nobody is called who was not before.
package breaker
