package process

import "time"

// DiskFull and Environment are under test from outside.
var (
	DiskFull    = diskFull
	Environment = environment
)

// NewWithDelay is New for tests that do not wait a second for each restart.
func NewWithDelay(delay time.Duration) *Supervisor {
	s := New()
	s.delay = delay
	return s
}
