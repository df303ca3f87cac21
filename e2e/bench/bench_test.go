package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// idleTime is how long a settled fleet is watched.
const idleTime = time.Minute

// quietTime is how long nobody writes when all is done. A manager of five thousand machines that has just started takes
// longer than two seconds to its first write.
const quietTime = 10 * time.Second

// BenchmarkManager lets fleets come, stand still, grow one by one, see their manager restarted, and go. The name gives the
// number of machines.
func BenchmarkManager(b *testing.B) {
	for _, machines := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(machines), func(b *testing.B) {
			for b.Loop() {
				measure(b, machines)
			}
		})
	}
}

func measure(b *testing.B, machines int) {
	b.Helper()
	f := newFleet(b)
	report(b, f.registered.Seconds(), "s-to-register-a-driver")
	pools := f.comeUp(b, machines)
	f.standStill(b)
	f.growOneByOne(b, min(100, machines))
	f.restart(b)
	f.goAway(b, append(pools, "further"), machines+min(100, machines))
}

// report gives a metric, and prints it at once: a benchmark takes long, and one that is stopped gives no metrics.
func report(b *testing.B, value float64, unit string) {
	b.Helper()
	fmt.Fprintf(os.Stderr, "%12.2f %s\n", value, unit)
	b.ReportMetric(value, unit)
}

func (f *fleet) comeUp(b *testing.B, machines int) []string {
	b.Helper()
	before, cpu, began := f.counter.look(), f.manager.cpu(), time.Now()
	pools := f.pools(machines)
	f.manager.profile("profile?seconds="+cpuProfileTime, fmt.Sprintf("cpu-%d.pprof", machines))
	f.await(f.ready, machines)
	took := time.Since(began)
	f.settle(quietTime)
	f.manager.profile("heap?gc=1", fmt.Sprintf("heap-%d.pprof", machines))
	made := f.counter.look().since(before)
	objects, events := made.writes()
	now, peak := f.manager.memory()
	report(b, float64(machines)/took.Seconds(), "machines/s")
	report(b, (f.manager.cpu()-cpu).Seconds()/float64(machines), "cpu-s/machine")
	report(b, float64(objects)/float64(machines), "writes/machine")
	report(b, float64(events)/float64(machines), "events/machine")
	report(b, now, "MiB")
	report(b, peak, "MiB-peak")
	printRequests(os.Stderr, "from creation to Ready", made, machines)
	return pools
}

// settle waits until nobody has written anything for some time: what is counted then belongs to what was done before. Reads
// go on: of a thousand Machines there is always one whose workload cluster Cluster API looks for again.
func (f *fleet) settle(quiet time.Duration) {
	f.Helper()
	const look = 500 * time.Millisecond
	last := f.counter.look()
	for left := quiet; left > 0; {
		f.pause(look)
		now := f.counter.look()
		if objects, events := now.since(last).writes(); objects+events == 0 {
			left -= look
		} else {
			left = quiet
		}
		last = now
	}
}

// pause waits, for there is nothing to watch when nothing is to happen.
func (f *fleet) pause(d time.Duration) {
	f.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.Context().Done():
	}
}

func (f *fleet) standStill(b *testing.B) {
	b.Helper()
	before := f.counter.look()
	f.pause(idleTime)
	idle := f.counter.look().since(before)
	objects, events := idle.writes()
	report(b, float64(objects+events), "writes/idle-minute")
	printRequests(os.Stderr, fmt.Sprintf("while nothing happens, %s", idleTime), idle, 1)
}

func (f *fleet) growOneByOne(b *testing.B, further int) {
	b.Helper()
	f.pool("further", 0)
	f.watch.forget()
	for i := range further {
		f.scale("further", i+1)
		f.await(f.ready, 1)
	}
	for _, d := range []struct{ name, from, to string }{{"start-to-Job", "may start", "create Job"}, {"done-to-Ready", "create done", "ready"}} {
		all := f.watch.between(d.from, d.to)
		report(b, percentile(all, 50), d.name+"-p50-ms")
		report(b, percentile(all, 99), d.name+"-p99-ms")
	}
}

// restart counts what a new manager asks before it has settled.
func (f *fleet) restart(b *testing.B) {
	b.Helper()
	f.manager.stop()
	before := f.counter.look()
	began := time.Now()
	f.manager = startManager(b, f.config, f.namespace)
	ready := time.Since(began)
	f.settle(quietTime)
	asked := f.counter.look().since(before)
	objects, events := asked.writes()
	report(b, ready.Seconds(), "s-to-restart")
	report(b, float64(objects+events), "writes/restart")
	printRequests(os.Stderr, "after a restart", asked, 1)
}

func (f *fleet) goAway(b *testing.B, pools []string, machines int) {
	b.Helper()
	f.settle(quietTime)
	before, began := f.counter.look(), time.Now()
	for _, pool := range pools {
		f.scale(pool, 0)
	}
	f.await(f.gone, machines)
	report(b, float64(machines)/time.Since(began).Seconds(), "removed/s")
	f.settle(quietTime)
	objects, _ := f.counter.look().since(before).writes()
	report(b, float64(objects)/float64(machines), "writes/removed-machine")
	printRequests(os.Stderr, "from Ready to gone", f.counter.look().since(before), machines)
}

// printRequests prints what was asked per machine, most of it first.
func printRequests(w io.Writer, title string, counted requests, machines int) {
	fmt.Fprintf(w, "\nrequests %s, per machine of %d\n", title, machines)
	keys := counted.keys()
	slices.SortStableFunc(keys, func(a, b string) int { return counted[b] - counted[a] })
	for _, key := range keys {
		if share := float64(counted[key]) / float64(machines); share >= 0.005 {
			fmt.Fprintf(w, "  %8.2f  %s\n", share, key)
		}
	}
}
