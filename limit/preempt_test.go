package limit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/limit"
)

// The caps hold, and the key that holds the most gives way.
func TestPreemptive(t *testing.T) {
	type ask struct {
		from string
		size int64
	}
	for name, c := range map[string]struct {
		total, perKey int64
		asks          []ask
		lost          []int // indexes of asks whose permits were preempted, in order
		refused       []int
	}{
		"all fit":             {10, 10, []ask{{"a", 5}, {"b", 5}}, nil, nil},
		"more than the total": {10, 10, []ask{{"a", 11}}, nil, []int{0}},
		"the heaviest key loses its oldest permit":        {10, 10, []ask{{"a", 4}, {"a", 4}, {"b", 2}, {"c", 2}}, []int{0}, nil},
		"a key with more than others loses its own":       {10, 10, []ask{{"a", 5}, {"b", 5}, {"a", 5}}, []int{0}, nil},
		"of equal keys the oldest permit goes":            {10, 10, []ask{{"a", 5}, {"b", 5}, {"c", 5}, {"d", 5}}, []int{0, 1}, nil},
		"a key has a cap":                                 {10, 2, []ask{{"a", 1}, {"a", 1}, {"a", 1}, {"b", 1}}, []int{0}, nil},
		"a key without permits gets all that it asks":     {10, 10, []ask{{"a", 5}, {"b", 5}, {"c", 10}}, []int{0, 1}, nil},
		"a light key keeps its permit beside a heavy one": {4, 4, []ask{{"s", 1}, {"a", 1}, {"a", 1}, {"a", 1}, {"a", 1}, {"a", 1}}, []int{1, 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rejections := 0
			s := limit.NewPreemptive[string](limit.PreemptiveOptions{Total: c.total, PerKey: c.perKey, Rejected: func() { rejections++ }})
			var lost, refused []int
			var permits []*limit.Permit[string]
			for i, ask := range c.asks {
				got := s.TryAcquire(ask.from, ask.size, func() { lost = append(lost, i) })
				if got == nil {
					refused = append(refused, i)
				}
				permits = append(permits, got)
			}
			require.Equal(t, c.lost, lost)
			require.Equal(t, c.refused, refused)
			require.Equal(t, len(lost)+len(refused), rejections)
			for _, permit := range permits {
				if permit != nil {
					permit.Release()
					permit.Release()
				}
			}
			require.Zero(t, s.Keys())
			require.NotNil(t, s.TryAcquire("z", min(c.total, c.perKey), func() {}), "all was given back")
		})
	}
}

// A preferred permit goes last, and a pinned one never.
func TestPreemptive_preferAndPin(t *testing.T) {
	var lost []string
	s := limit.NewPreemptive[string](limit.PreemptiveOptions{Total: 3, PerKey: 3})
	take := func(name string) *limit.Permit[string] {
		return s.TryAcquire("a", 1, func() { lost = append(lost, name) })
	}
	first, second, third := take("pinned"), take("preferred"), take("new")
	require.True(t, first.Pin())
	second.Prefer()
	take("newer")
	take("newest")
	require.Equal(t, []string{"new", "newer"}, lost, "a preferred permit goes last")
	require.False(t, third.Pin(), "it is too late")
	require.ErrorIs(t, third.IfHeld(func() error { return nil }), limit.ErrPreempted)
	require.NoError(t, second.IfHeld(func() error { return nil }))
	for range 5 {
		take("more").Prefer()
	}
	require.NotContains(t, lost, "pinned")
}

// With KeepOwn a key at its cap is rejected; without it the key's newest permit takes the place of its oldest. A key without permits always gets one.
func TestPreemptive_keepOwn(t *testing.T) {
	for name, c := range map[string]struct {
		keeps         bool
		asks          []string
		ended, denied []int
	}{
		"keeps: the third of one key is rejected":          {true, []string{"a", "a", "a", "b"}, nil, []int{2}},
		"keeps: the lightest key preempts the heaviest":    {true, []string{"a", "a", "b", "b", "c"}, []int{0}, nil},
		"keeps: the heaviest key gets no more":             {true, []string{"a", "b", "c", "d", "a"}, nil, []int{4}},
		"gives up: the third of one key ends its first":    {false, []string{"a", "a", "a", "b"}, []int{0}, nil},
		"gives up: the lightest key preempts the heaviest": {false, []string{"a", "a", "b", "b", "c"}, []int{0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := limit.NewPreemptive[string](limit.PreemptiveOptions{Total: 4, PerKey: 2, KeepOwn: c.keeps})
			var ended, denied []int
			var permits []*limit.Permit[string]
			for i, who := range c.asks {
				permit := s.TryAcquire(who, 1, func() { ended = append(ended, i) })
				if permit == nil {
					denied = append(denied, i)
					continue
				}
				permits = append(permits, permit)
			}
			require.Equal(t, c.ended, ended)
			require.Equal(t, c.denied, denied)
			for _, permit := range permits {
				permit.Release()
			}
			require.Zero(t, s.Keys())
		})
	}
}
