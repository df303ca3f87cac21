package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine/breaker"
)

var (
	begin = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	pool  = breaker.Group{Kind: "DigitaloceanMachine", Credential: "n/cred", Order: "1"}
)

// pace is ten minutes after the first refusal and twice as long after each other.
func pace(_ string, n int32) time.Duration { return 10 * time.Minute << (n - 1) }

// desk is a book, a clock, and who was called.
type desk struct {
	*testing.T
	*breaker.Breaker[string]
	now    time.Time
	called []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, Breaker: breaker.New[string](pace), now: begin}
	d.OnCall(func(name string) { d.called = append(d.called, name) })
	return d
}

func (d *desk) ask(name string) breaker.Turn {
	return d.Ask(name, breaker.Ask{Group: pool, Hash: "h", Now: d.now})
}

func (d *desk) goes(names ...string) {
	d.Helper()
	for _, name := range names {
		require.True(d, d.ask(name).Go, name)
	}
}

func (d *desk) held(names ...string) {
	d.Helper()
	for _, name := range names {
		require.Equal(d, breaker.Turn{Class: rkev1.ClassQuota}, d.ask(name), name)
	}
}

func (d *desk) refused(name string, attempt int32) { d.refusal(name, attempt, attempt) }

func (d *desk) refusal(name string, attempt, try int32) {
	d.Refused(name, breaker.Refusal{Group: pool, Class: rkev1.ClassQuota, Attempt: attempt, Try: try, End: d.now, Now: d.now, Fresh: true})
}

func (d *desk) asksAt(name string, after time.Duration) {
	d.Helper()
	require.Equal(d, breaker.Turn{Class: rkev1.ClassQuota, At: d.now.Add(after)}, d.ask(name), name)
}

// pass lets time go by.
func (d *desk) pass(t time.Duration) { d.now = d.now.Add(t) }

func (d *desk) expectCalled(names ...string) {
	d.Helper()
	require.Equal(d, names, d.called)
	d.called = nil
}

func TestBreaker_freeWhileNobodyIsRefused(t *testing.T) {
	d := newDesk(t)
	d.goes("a", "b", "c", "a")
	d.Made("a", d.now)
	d.Ended("b", d.now, d.now)
	d.Leave("c", d.now)
	require.Empty(t, d.called)
}

func TestBreaker_oneAsksForAll(t *testing.T) {
	d := newDesk(t)
	d.goes("a", "b", "c")
	d.refused("a", 1)
	d.refused("b", 1)
	d.asksAt("a", 10*time.Minute)
	d.held("b", "d")
	d.refused("c", 1)
	d.held("c")
	d.asksAt("a", 10*time.Minute)
	d.expectCalled()

	d.pass(10 * time.Minute)
	d.held("b", "c", "d")
	d.goes("a", "a")
	d.held("b", "e")
	d.refused("a", 2)
	d.asksAt("a", 20*time.Minute)
	d.refused("a", 2)
	d.asksAt("a", 20*time.Minute)

	d.pass(20 * time.Minute)
	d.goes("a")
	d.Made("a", d.now)
	d.expectCalled("b", "d")
	d.goes("d", "b")
	d.held("c", "e", "f")
	d.Made("b", d.now)
	d.expectCalled("c", "e")
	d.goes("c", "e")
	d.held("f")
	d.Made("c", d.now)
	d.expectCalled("f")
	d.goes("f", "g")
	d.Made("d", d.now)
	d.goes("h", "i", "j", "k")
	require.Empty(t, d.called)
}

func TestBreaker_refusedAgainWhileOthersFollow(t *testing.T) {
	d := newDesk(t)
	d.refused("a", 1)
	d.held("b", "c", "d")
	d.pass(10 * time.Minute)
	d.goes("a")
	d.Made("a", d.now)
	d.expectCalled("b", "c")
	d.goes("b", "c")
	d.refused("b", 1)
	d.asksAt("b", 10*time.Minute)
	d.Made("c", d.now)
	d.held("d", "e")
	d.asksAt("b", 10*time.Minute)
	require.Empty(t, d.called, "what was agreed to before the refusal says nothing of what came after")
}

func TestBreaker_whoGoesGivesItsTurnOn(t *testing.T) {
	for name, end := range map[string]func(*desk){
		"deleted":       func(d *desk) { d.Leave("a", d.now) },
		"with its kind": func(d *desk) { d.LeaveAll(func(name string) bool { return name == "a" }, d.now) },
		"another order": func(d *desk) { d.Ask("a", breaker.Ask{Group: breaker.Group{Order: "2"}, Now: d.now}) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.refused("a", 1)
			d.held("b", "c")
			d.pass(10 * time.Minute)
			end(d)
			d.expectCalled("b")
			d.goes("b")
			d.held("c")
		})
	}
}

// What ends in another way tells nothing of the room there is: the next asks when that machine would have asked again.
func TestBreaker_endedForAnotherReason(t *testing.T) {
	d := newDesk(t)
	d.refused("a", 1)
	d.held("b")
	d.pass(10 * time.Minute)
	d.goes("a")
	d.Ended("a", d.now.Add(15*time.Second), d.now)
	d.expectCalled("b")
	d.asksAt("b", 15*time.Second)
	d.held("a")
}

func TestBreaker_attemptsAnewAfterAServer(t *testing.T) {
	d := newDesk(t)
	d.refused("b", 1)
	d.refused("a", 1)
	d.pass(10 * time.Minute)
	d.goes("b")
	require.False(t, d.Freed("a"))
	d.Made("b", d.now)
	d.expectCalled("a")
	require.True(t, d.Freed("a"))
	d.refused("a", 1)
	d.goes("a")
	d.refused("a", 1)
	require.True(t, d.Freed("a"), "its attempt could not be begun yet")
	d.goes("a")
	d.refused("a", 2)
	require.False(t, d.Freed("a"))
	d.asksAt("a", 10*time.Minute)
}

// A machine's own back-off holds too, but not when another has got a server since.
func TestBreaker_ownBackOff(t *testing.T) {
	d := newDesk(t)
	ask := breaker.Ask{Group: pool, Hash: "h", NotBefore: d.now.Add(time.Hour), Now: d.now}
	d.refused("a", 1)
	d.refused("b", 3)
	require.Equal(t, ask.NotBefore, d.Ask("a", ask).At)
	require.Zero(t, d.Ask("b", ask).At)
	d.Leave("a", d.now)
	d.pass(40 * time.Minute)
	ask.Now = d.now
	require.Equal(t, ask.NotBefore, d.Ask("b", ask).At)
	d.Leave("b", d.now)
	d.goes("c")
	d.refused("b", 3)
	d.Made("c", d.now)
	require.True(t, d.Ask("b", ask).Go)
}

// Somebody who changes something does not want to wait, but two still do not try together.
func TestBreaker_changed(t *testing.T) {
	for name, ask := range map[string]breaker.Ask{
		"since it was held":            {Group: pool, Hash: "other"},
		"since its last attempt ended": {Group: pool, Hash: "h", Changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.refused("a", 1)
			d.held("b", "c")
			ask.Now = d.now
			require.True(t, d.Ask("b", ask).Go)
			d.held("a", "c")
			require.Equal(t, breaker.Turn{Class: rkev1.ClassQuota}, d.Ask("c", ask), "after b")
			d.refused("b", 1)
			d.expectCalled("c")
			require.True(t, d.Ask("c", ask).Go)
			d.refused("c", 1)
			d.asksAt("a", 10*time.Minute)
		})
	}
}

func TestBreaker_groupsDoNotMatterToEachOther(t *testing.T) {
	d := newDesk(t)
	d.refused("a", 1)
	for _, other := range []breaker.Group{
		{Kind: "HetznerMachine", Credential: pool.Credential, Order: pool.Order},
		{Kind: pool.Kind, Credential: "n/other", Order: pool.Order},
		{Kind: pool.Kind, Credential: pool.Credential, Order: "2"},
	} {
		require.True(t, d.Ask("x", breaker.Ask{Group: other, Now: d.now}).Go)
	}
	d.held("x")
}

// A machine that is made in place of a refused one goes on where that one was, until long after.
func TestBreaker_replacedMachines(t *testing.T) {
	d := newDesk(t)
	d.refused("a", 1)
	d.Leave("a", d.now)
	d.asksAt("b", 10*time.Minute)
	d.pass(10 * time.Minute)
	d.goes("b")
	d.refused("b", 1)
	d.Leave("b", d.now)
	d.asksAt("c", 20*time.Minute)
	d.Leave("c", d.now)
	d.pass(81 * time.Minute)
	d.goes("d", "e")
}

func TestBreaker_afterARestart(t *testing.T) {
	told := func(d *desk, name string, ago time.Duration) {
		d.Refused(name, breaker.Refusal{Group: pool, Class: rkev1.ClassQuota, Attempt: 2, Try: 2, End: d.now.Add(-ago), Now: d.now})
	}
	quiet := breaker.Turn{Class: rkev1.ClassQuota, CheckAt: begin.Add(time.Minute)}
	t.Run("the one that was called is, whoever comes first", func(t *testing.T) {
		d := newDesk(t)
		require.Equal(t, quiet, d.Ask("w", breaker.Ask{Group: pool, Held: rkev1.ClassQuota, Now: d.now}))
		told(d, "b", 5*time.Minute)
		require.Equal(t, quiet, d.ask("b"))
		told(d, "a", 5*time.Minute)
		turn := d.Ask("a", breaker.Ask{Group: pool, Called: true, NotBefore: d.now.Add(time.Minute), Now: d.now})
		require.Equal(t, breaker.Turn{Class: rkev1.ClassQuota, At: d.now.Add(15 * time.Minute)}, turn)
		d.pass(time.Minute)
		d.held("w", "b")
		require.Empty(t, d.called)
	})
	t.Run("nobody was: the first after a minute", func(t *testing.T) {
		d := newDesk(t)
		require.Equal(t, quiet, d.Ask("w", breaker.Ask{Group: pool, Held: rkev1.ClassQuota, Now: d.now}))
		require.Equal(t, quiet, d.Ask("x", breaker.Ask{Group: pool, Held: rkev1.ClassQuota, Now: d.now}))
		d.pass(time.Minute)
		d.held("x")
		d.goes("w")
	})
	t.Run("it is no restart any more", func(t *testing.T) {
		d := newDesk(t)
		d.goes("a")
		d.pass(time.Hour)
		require.True(t, d.Ask("w", breaker.Ask{Group: pool, Held: rkev1.ClassQuota, Now: d.now}).Go)
		told(d, "b", 5*time.Minute)
		d.asksAt("b", 15*time.Minute)
	})
}

// TestBreaker_anyOrder: whatever happens in whatever order, no more try than may, nobody is forgotten, and when the cloud has
// room all get their servers.
func TestBreaker_anyOrder(t *testing.T) {
	for seed := range uint64(300) {
		w := &sim{desk: newDesk(t), random: rand.New(rand.NewPCG(seed, 1)), attempts: map[string]int32{}, state: map[string]string{}}
		for i := range 12 {
			w.state[fmt.Sprintf("m%02d", i)] = "wants"
		}
		for range 400 {
			w.step(seed)
		}
		require.LessOrEqual(t, w.hammered, 12+w.rounds, "seed %d: %d rounds", seed, w.rounds)
		w.room = 1 << 20
		for range 400 {
			w.step(seed)
		}
		for name, state := range w.state {
			require.Contains(t, []string{"has", "gone"}, state, "seed %d: %s", seed, name)
		}
	}
}

// sim is a cloud with little room and machines that want some.
type sim struct {
	*desk
	random   *rand.Rand
	room     int
	attempts map[string]int32
	state    map[string]string
	// hammered counts the refusals, and rounds the ten minutes.
	hammered, rounds int
}

func (w *sim) step(seed uint64) {
	w.Helper()
	name := fmt.Sprintf("m%02d", w.random.IntN(12))
	switch {
	case w.random.IntN(8) == 0:
		w.pass(10 * time.Minute)
		w.rounds++
	case w.room < 1<<20 && w.random.IntN(40) == 0:
		w.room++
	case w.room < 1<<20 && w.random.IntN(60) == 0:
		w.state[name] = "gone"
		w.Leave(name, w.now)
	case w.state[name] == "wants":
		if w.ask(name).Go {
			w.attempts[name]++
			w.state[name] = "tries"
		}
	case w.state[name] == "tries" && w.room > 0:
		w.room--
		w.state[name] = "has"
		w.Made(name, w.now)
	case w.state[name] == "tries":
		w.hammered++
		w.state[name] = "wants"
		w.refusal(name, w.attempts[name], 1)
	}
	for _, name := range w.called {
		require.NotEqual(w, "gone", w.state[name], "seed %d: %s", seed, name)
	}
	w.called = nil
}

// BenchmarkBreaker is a pool of 5,000 machines that is held, looked at once, and served.
func BenchmarkBreaker(b *testing.B) {
	for b.Loop() {
		book := breaker.New[int](pace)
		var called []int
		book.OnCall(func(k int) { called = append(called, k) })
		ask := func(k int) bool {
			return book.Ask(k, breaker.Ask{Group: pool, Hash: "h", Now: begin.Add(time.Hour)}).Go
		}
		book.Refused(0, breaker.Refusal{Group: pool, Class: rkev1.ClassQuota, Attempt: 1, Try: 1, End: begin, Now: begin, Fresh: true})
		for k := range 5000 {
			ask(k)
		}
		book.Made(0, begin.Add(time.Hour))
		served := 1
		for ; len(called) > 0; served++ {
			k := called[0]
			called = called[1:]
			ask(k)
			book.Made(k, begin.Add(time.Hour))
		}
		if served != 5000 {
			b.Fatalf("%d of 5000 were served", served)
		}
	}
}

// Who was refused is named as long as it waits too. The pace stays when it goes, for it may be replaced.
func TestBreaker_theCauseGoes(t *testing.T) {
	d := newDesk(t)
	a, b, c := "a", "b", "c"
	cause := func(before, want *string, here bool) {
		t.Helper()
		got, is := d.Cause(pool, before, d.now)
		require.Equal(t, want, got)
		require.Equal(t, here, is)
	}
	d.goes("a", "b")
	cause(nil, nil, false)
	cause(&c, &c, true) // a Breaker that has just begun knows no better
	d.refusal("a", 1, 4)
	d.refusal("b", 1, 1)
	cause(nil, &a, true)
	cause(&b, &b, true) // no change of words without need
	d.held("b", "c")
	d.Leave("a", d.now)
	d.asksAt("b", 80*time.Minute)
	cause(&a, &b, true)
	d.Leave("b", d.now)
	cause(&b, &b, false)
	d.asksAt("c", 80*time.Minute)
	d.pass(20 * time.Minute)
	cause(&c, &b, false) // c was never refused
	d.pass(time.Hour)
	d.goes("c")
	d.refused("c", 1)
	cause(&b, &c, true)
}
