package workload

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScanner(t *testing.T) {
	node := `{"metadata":{"name":"n","labels":{"a":"[{[{"}},"status":{"conditions":[{"type":"Ready","status":"True"}],"note":"` + strings.Repeat("x", 200) + `\"{["}}`
	for name, tt := range map[string]struct {
		answer string
		limit  int
		stream bool
		err    string
	}{
		"a list":               {answer: `{"items":[` + strings.Repeat(node+",", 3000) + node + `]}`, limit: 4 << 20},
		"few nothings":         {answer: `[` + strings.Repeat("{},", 999) + `{}]`, limit: 1 << 20},
		"many nothings":        {answer: `[` + strings.Repeat("{},", 1000) + `{}]`, limit: 1 << 20, err: "more objects than sense"},
		"nothings in nothings": {answer: strings.Repeat("[[],[", 100) + strings.Repeat("[],", 2000), limit: 1 << 20, err: "more objects than sense"},
		"no members":           {answer: `{` + strings.Repeat(`"a":{},`, 5000) + `}`, limit: 1 << 20},
		"too long":             {answer: strings.Repeat("x", 101), limit: 100, err: "more than 100 bytes"},
		"as long as may be":    {answer: strings.Repeat("x", 100), limit: 100},
		"too deep":             {answer: strings.Repeat("[", 257), limit: 1 << 20, err: "nested too deep"},
		"events":               {answer: strings.Repeat(`{"object":{"a":"`+strings.Repeat("x", 80)+`"}}`+"\n", 100), limit: 120, stream: true},
		"one long event":       {answer: `{"object":{"a":"` + strings.Repeat("x", 120), limit: 120, stream: true, err: "more than 120 bytes"},
		"more ends than begin": {answer: "]]]}}}[{}]", limit: 100},
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{1, 7, len(tt.answer)} {
				s := scanner{limit: tt.limit, stream: tt.stream}
				var err error
				for rest := []byte(tt.answer); len(rest) > 0 && err == nil; rest = rest[min(piece, len(rest)):] {
					err = s.read(rest[:min(piece, len(rest))])
				}
				if tt.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.err)
					require.ErrorIs(t, err, errAnswer)
				}
			}
		})
	}
}

func TestHolding(t *testing.T) {
	all := newShares()
	first := &holding{all: all, share: all.namespace("a"), sizes: map[string]int{}}
	require.NoError(t, first.hold("n", heldByCluster-10))
	require.NoError(t, first.hold("n", heldByCluster-5), "the same object counts once")
	require.ErrorIs(t, first.hold("m", 10), errHeld)
	for range 2 {
		require.ErrorIs(t, (&holding{all: all, share: all.namespace("b"), sizes: map[string]int{}}).hold("n", heldByCluster+1), errHeld)
	}
	second := &holding{all: all, share: all.namespace("a"), sizes: map[string]int{}}
	require.NoError(t, second.hold("n", heldByCluster))
	third := &holding{all: all, share: all.namespace("a"), sizes: map[string]int{}}
	require.ErrorIs(t, third.hold("n", heldByCluster), errHeld, "the namespace has no more")
	require.NoError(t, (&holding{all: all, share: all.namespace("b"), sizes: map[string]int{}}).hold("n", heldByCluster), "another has")
	first.end()
	require.ErrorIs(t, first.hold("late", 1), errHeld)
	require.NoError(t, third.hold("n", heldByCluster))
}

func TestPlaces(t *testing.T) {
	two := newPlaces(2)
	first, ok := two.take(t.Context(), 0)
	require.True(t, ok)
	_, ok = two.take(t.Context(), 0)
	require.True(t, ok)
	_, ok = two.take(t.Context(), 0)
	require.False(t, ok)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, ok = two.take(stopped, time.Hour)
	require.False(t, ok)
	first()
	first()
	_, ok = two.take(t.Context(), time.Hour)
	require.True(t, ok)
	_, ok = two.take(t.Context(), time.Millisecond)
	require.False(t, ok, "a place is given back once")
}

func TestRetryAfter(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 7: 5 * time.Minute, 1 << 40: 5 * time.Minute} {
		require.Equal(t, want, retryAfter(failures))
	}
}
