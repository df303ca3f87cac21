package faults

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// report counts what was tried and what came of it.
type report struct {
	mu    sync.Mutex
	cells map[[3]string]*cell
	// first is the number of the first run; several are the runs with so many faults, worlds those in such a one.
	first   int
	several map[int]int
	worlds  map[string]int
	// numbers of the runs that failed, and what they said; points that were hit.
	numbers       []int
	failures      []error
	points, kills map[string]map[string]bool
}

// cell is one kind of fault at one place in one phase: how often it was tried, met its point, and led to a failure, and at
// how many distinct points of all there are.
type cell struct {
	tried, struck, failed int
	points                map[int]bool
}

func newReport(first int) *report {
	return &report{first: first, several: map[int]int{}, worlds: map[string]int{}, cells: map[[3]string]*cell{}, points: map[string]map[string]bool{}, kills: map[string]map[string]bool{}}
}

// add returns how many runs there were so far.
func (r *report) add(n int, in setting, troubles []trouble, struck func(trouble) bool, err error) (runs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.several[len(troubles)]++
	for _, name := range in.names() {
		r.worlds[name]++
	}
	if err != nil {
		r.numbers, r.failures = append(r.numbers, n), append(r.failures, fmt.Errorf("%d, %v: %v: %w", n, in, troubles, err))
	}
	for _, t := range troubles {
		key := [3]string{t.phase, t.place, t.kind}
		if r.cells[key] == nil {
			r.cells[key] = &cell{points: map[int]bool{}}
		}
		r.cells[key].add(t, struck(t), err)
		r.hit(t, struck(t))
	}
	return r.runs()
}

func (c *cell) add(t trouble, struck bool, err error) {
	c.tried++
	if struck {
		c.struck++
		c.points[t.index] = true
	}
	if err != nil {
		c.failed++
	}
}

func (r *report) hit(t trouble, struck bool) {
	if !struck {
		return
	}
	where := t.phase + " " + t.place
	mark(r.points, where, fmt.Sprint(t.index))
	if isKill(t.kind) {
		mark(r.kills, where, fmt.Sprint(t.index, t.kind))
	}
}

func mark(in map[string]map[string]bool, where, what string) {
	if in[where] == nil {
		in[where] = map[string]bool{}
	}
	in[where][what] = true
}

func isKill(kind string) bool {
	return slices.Contains([]string{"killed before", "killed after", "pod killed before", "pod killed after"}, kind)
}

// print writes the matrix, one line a kind of fault.
func (r *report) print(out io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([][3]string, 0, len(r.cells))
	for key := range r.cells {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PHASE\tWHERE\tFAULT\tTRIED\tSTRUCK\tPOINTS\tFAILED")
	for _, key := range keys {
		c := r.cells[key]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\n", key[0], key[1], key[2], c.tried, c.struck, len(c.points), c.failed)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return r.sum(out)
}

func (r *report) runs() int { return r.several[1] + r.several[2] + r.several[3] }

func (r *report) sum(out io.Writer) error {
	var worlds []string
	for name, runs := range r.worlds {
		worlds = append(worlds, fmt.Sprintf("%s %d", name, runs))
	}
	slices.Sort(worlds)
	for _, failure := range r.failures {
		if _, err := fmt.Fprintln(out, failure); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, `
distinct points: %s
distinct kills:  %s
worlds: %s
%d runs from number %d: %d with one fault, %d with two, %d with three; %d kinds of fault by phase and place
%d failed %v
`, told(r.points), told(r.kills), strings.Join(worlds, ", "), r.runs(), r.first, r.several[1], r.several[2], r.several[3], len(r.cells), len(r.numbers), r.numbers)
	return err
}

func told(hit map[string]map[string]bool) string {
	var all []string
	sum := 0
	for where, points := range hit {
		all = append(all, fmt.Sprintf("%s %d", where, len(points)))
		sum += len(points)
	}
	slices.Sort(all)
	return fmt.Sprintf("%d (%s)", sum, strings.Join(all, ", "))
}
