package testkit

import (
	"testing"
	"time"
)

// pollEvery is short beside what the stories of e2e wait for.
const pollEvery = 100 * time.Millisecond

// Eventually calls check until it returns nil, and fails the test with its
// last error when that takes too long. For e2e only: other tests call
// Reconcile and have nothing to wait for.
func Eventually(tb testing.TB, timeout time.Duration, check func() error) {
	tb.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tb.Context().Done():
			tb.Fatalf("test ended while waiting: %v", err)
		case <-deadline.C:
			tb.Fatalf("not within %s: %v", timeout, err)
		case <-tick.C:
		}
	}
}
