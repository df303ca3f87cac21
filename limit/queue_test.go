package limit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/limit"
)

// queue is a Queue, and the callers that it woke. A caller's name begins with its namespace.
type queue struct {
	*testing.T
	*limit.Queue[string]
	woken []string
}

func newQueue(t *testing.T, permits int) *queue {
	t.Helper()
	q := &queue{T: t, Queue: limit.NewQueue[string](permits)}
	q.OnWake(func(name string) { q.woken = append(q.woken, name) })
	return q
}

func (q *queue) goes(names ...string) {
	q.Helper()
	for _, name := range names {
		ok, ahead := q.Acquire(name, name[:1], false)
		require.True(q, ok, "%s has %d ahead", name, ahead)
	}
}

func (q *queue) waits(name string, want int) {
	q.Helper()
	ok, ahead := q.Acquire(name, name[:1], false)
	require.False(q, ok, name)
	require.Equal(q, want, ahead, name)
}

func (q *queue) wakes(names ...string) {
	q.Helper()
	require.Equal(q, names, q.woken)
	q.woken = nil
}

func TestQueue_noLimit(t *testing.T) {
	q := newQueue(t, 0)
	for i := range 1000 {
		q.goes(fmt.Sprintf("a%d", i))
	}
	q.Hold("a1", "a")
	require.False(t, q.Knows("a1"))
	(&limit.Queue[string]{}).Hold("a1", "a")
}

func TestQueue_inTheOrderOfArrival(t *testing.T) {
	q := newQueue(t, 2)
	q.goes("a1", "a2", "a1")
	q.waits("a3", 0)
	q.waits("a4", 1)
	q.waits("a3", 0)
	require.True(t, q.Knows("a1") && q.Knows("a4") && !q.Knows("a5"))
	q.wakes()
	q.Release("a1")
	q.wakes("a3", "a4") // the second is the next now
	q.goes("a3")
	q.waits("a4", 0)
	q.Release("a4")
	q.wakes()
	q.Release("a2")
	q.goes("a5")
	q.ReleaseAll(func(string) bool { return true })
	q.goes("b1", "b2")
}

// A namespace with many callers does not delay other namespaces.
func TestQueue_sharesAmongNamespaces(t *testing.T) {
	q := newQueue(t, 3)
	q.goes("a1", "a2", "a3")
	for i := 4; i < 300; i++ {
		q.waits(fmt.Sprintf("a%d", i), i-4)
	}
	q.waits("b1", 0)
	q.waits("c1", 1)
	q.waits("b2", 2)
	q.Release("a1")
	require.Equal(t, "b1", q.woken[0])
	q.Release("a2")
	q.goes("c1")
	q.Release("b1")
	q.goes("b2")
	q.Release("c1")
	q.goes("a4") // all have one
}

func TestQueue_priorityInANamespace(t *testing.T) {
	q := newQueue(t, 1)
	q.goes("a1")
	q.waits("a2", 0)
	q.waits("b1", 0)
	_, ahead := q.Acquire("a3", "a", true)
	require.Equal(t, 1, ahead, "before a2, after b1, whose namespace has none")
	q.Release("a1")
	q.wakes("b1", "a3") // a3 is the next now
	q.Release("b1")
	q.wakes("a3")
}

// Permits from before a restart count, also above the limit.
func TestQueue_hold(t *testing.T) {
	q := newQueue(t, 1)
	q.Hold("a1", "a")
	q.Hold("a2", "a")
	q.waits("a3", 0)
	q.Release("a1")
	q.waits("a3", 0)
	q.Release("a2")
	q.wakes("a3")
}

// A caller is woken for its new place when the number ahead has halved, not for each change.
func TestQueue_wakesSeldom(t *testing.T) {
	q := newQueue(t, 1)
	q.goes("a0")
	for i := range 100 {
		q.waits(fmt.Sprintf("a%d", i+1), i)
	}
	told := map[string]int{}
	for i := range 100 {
		q.Release(fmt.Sprintf("a%d", i))
		for _, name := range q.woken {
			told[name]++
			if ok, _ := q.Acquire(name, "a", false); ok {
				require.Equal(t, fmt.Sprintf("a%d", i+1), name)
			}
		}
		q.woken = nil
	}
	require.LessOrEqual(t, told["a100"], 9)
}

// In any order of calls, at most Limit callers hold permits, no permit stays free while a caller waits, and each caller that is served was woken.
func TestQueue_random(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		q := newQueue(t, 1+random.IntN(4))
		runs, wants := map[string]bool{}, map[string]bool{}
		for range 300 {
			name := fmt.Sprintf("%c%d", 'a'+rune(random.IntN(4)), random.IntN(6))
			if runs[name] || random.IntN(4) == 0 {
				delete(runs, name)
				delete(wants, name)
				q.Release(name)
			} else if ok, _ := q.Acquire(name, name[:1], random.IntN(2) == 0); ok {
				runs[name] = true
				delete(wants, name)
			} else {
				wants[name] = true
			}
			for _, woken := range q.woken {
				if ok, _ := q.Acquire(woken, woken[:1], false); ok {
					require.True(t, wants[woken] || runs[woken], woken)
					runs[woken] = true
					delete(wants, woken)
				}
			}
			q.woken = nil
			require.LessOrEqual(t, len(runs), q.Limit)
			require.True(t, len(wants) == 0 || len(runs) == q.Limit, "a permit is free and a caller waits")
		}
	}
}
