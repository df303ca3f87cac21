package bench

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopwatch notes when each machine first reached each point.
type stopwatch struct {
	mu sync.Mutex
	at map[string]map[string]time.Time
}

// note tells whether the point was reached for the first time.
func (s *stopwatch) note(machine, point string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[machine] == nil {
		s.at[machine] = map[string]time.Time{}
	}
	if !s.at[machine][point].IsZero() {
		return false
	}
	s.at[machine][point] = time.Now()
	return true
}

// between lists, sorted, how long the machines took from one point to another; those that reached both.
func (s *stopwatch) between(from, to string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for _, points := range s.at {
		if !points[from].IsZero() && !points[to].IsZero() {
			all = append(all, points[to].Sub(points[from]))
		}
	}
	slices.Sort(all)
	return all
}

// forget begins anew.
func (s *stopwatch) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = map[string]map[string]time.Time{}
}

// percentile of sorted durations, in milliseconds; 0 of none.
func percentile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(len(sorted)*percent/100, len(sorted)-1)].Microseconds()) / 1000
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1)*time.Millisecond)
	}
	require.InDelta(t, 51, percentile(hundred, 50), 0)
	require.InDelta(t, 100, percentile(hundred, 99), 0)
	require.InDelta(t, 1, percentile(hundred[:1], 99), 0)
	require.Zero(t, percentile(nil, 50))
}

func TestStopwatch(t *testing.T) {
	s := &stopwatch{at: map[string]map[string]time.Time{}}
	require.True(t, s.note("a", "start"))
	require.False(t, s.note("a", "start"), "only the first time counts")
	require.True(t, s.note("b", "start"))
	require.True(t, s.note("a", "end"))
	require.Len(t, s.between("start", "end"), 1, "b never came to its end")
	s.forget()
	require.Empty(t, s.between("start", "end"))
}
