package joblimit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/controllers/machine/joblimit"
)

// queue is a limiter, and who was woken. A machine's name begins with its namespace.
type queue struct {
	*testing.T
	*joblimit.Limiter[string]
	woken []string
}

func newQueue(t *testing.T, limit int) *queue {
	t.Helper()
	q := &queue{T: t, Limiter: joblimit.New[string](limit)}
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

func TestLimiter_noLimit(t *testing.T) {
	q := newQueue(t, 0)
	for i := range 1000 {
		q.goes(fmt.Sprintf("a%d", i))
	}
	q.Hold("a1", "a")
	require.False(t, q.Knows("a1"))
	(&joblimit.Limiter[string]{}).Hold("a1", "a")
}

func TestLimiter_inTheOrderOfArrival(t *testing.T) {
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

// A namespace with a thousand machines does not keep the others waiting.
func TestLimiter_sharesAmongNamespaces(t *testing.T) {
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

func TestLimiter_removalsFirstInTheirNamespace(t *testing.T) {
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

// Jobs of before a restart count, also when there are more than may be.
func TestLimiter_holdsWhatRuns(t *testing.T) {
	q := newQueue(t, 1)
	q.Hold("a1", "a")
	q.Hold("a2", "a")
	q.waits("a3", 0)
	q.Release("a1")
	q.waits("a3", 0)
	q.Release("a2")
	q.wakes("a3")
}

// The number ahead is told again when it has halved, not each time that it changes.
func TestLimiter_tellsTheNumberSeldom(t *testing.T) {
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

// Whatever comes in whatever order: never more than may run, nobody is forgotten, and everybody who is let go was woken.
func TestLimiter_random(t *testing.T) {
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
			require.True(t, len(wants) == 0 || len(runs) == q.Limit, "a place is free and somebody waits")
		}
	}
}
