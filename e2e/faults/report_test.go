package faults

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
)

// report counts what was tried and what came of it.
type report struct {
	mu     sync.Mutex
	runs   int
	failed int
	// cells are the tries and failures of one kind of fault at one place in one phase; hit are the distinct points.
	cells map[[3]string]*[2]int
	hit   map[string]bool
}

func newReport() *report {
	return &report{cells: map[[3]string]*[2]int{}, hit: map[string]bool{}}
}

func (r *report) add(troubles []trouble, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	if err != nil {
		r.failed++
	}
	for _, t := range troubles {
		key := [3]string{t.phase, t.place, t.kind}
		if r.cells[key] == nil {
			r.cells[key] = &[2]int{}
		}
		r.cells[key][0]++
		if err != nil {
			r.cells[key][1]++
		}
		r.hit[fmt.Sprint(t.phase, t.place, t.index)] = true
	}
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
	_, _ = fmt.Fprintln(table, "PHASE\tWHERE\tFAULT\tTRIED\tFAILED")
	for _, key := range keys {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\n", key[0], key[1], key[2], r.cells[key][0], r.cells[key][1])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d runs, %d distinct points, %d failed\n", r.runs, len(r.hit), r.failed)
	return err
}
