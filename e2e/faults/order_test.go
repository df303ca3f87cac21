package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/drover-project/drover/e2e/cloud/fault"
)

// What is lacking of a full disk.
const (
	noPages  = "disk full"
	noInodes = "no inodes left"
)

// record is which requests a run without faults made, by phase and place; of the disk, one entry for each page and inode.
type record map[string]map[string][]string

// uses adds how much of its disk the pod needed.
func (r record) uses(phase string, used disk) {
	for range used.Pages {
		r[phase][onDisk] = append(r[phase][onDisk], noPages)
	}
	for range used.Inodes - spareInodes {
		r[phase][onDisk] = append(r[phase][onDisk], noInodes)
	}
}

// spareInodes are those of the directories that are made when the disk is mounted.
const spareInodes = 3

// disk is what a trouble leaves of it: 1 page and up, or the directories' inodes and up.
func (t trouble) disk(r record) disk {
	d := ampleDisk
	if t.kind == noPages {
		d.Pages = t.index + 1
		return d
	}
	first := slices.Index(r[t.phase][onDisk], noInodes)
	d.Inodes = spareInodes + t.index - first
	return d
}

// singles are all faults at all points, of one kind, phase and place each.
func (r record) singles() [][]trouble {
	var all [][]trouble
	cells := map[string]int{}
	add := func(t trouble) {
		key := fmt.Sprint(t.phase, t.place, t.kind)
		if _, known := cells[key]; !known {
			cells[key] = len(all)
			all = append(all, nil)
		}
		all[cells[key]] = append(all[cells[key]], t)
	}
	for _, phase := range phases {
		for _, place := range []string{manager, pod, atCloud, onDisk} {
			for index, request := range r[phase][place] {
				for _, kind := range struck(phase, place, request) {
					add(trouble{phase: phase, place: place, kind: kind, index: index, request: request})
				}
			}
		}
	}
	for _, name := range effectNames() {
		if effects()[name].boots() {
			add(trouble{phase: removing, place: atCloud, kind: name, index: 0, request: fault.CreateDroplet})
		}
	}
	return all
}

// order is every single fault once: the first of each kind, phase and place, then the second of each, and so on.
func (r record) order() []trouble {
	cells := r.singles()
	random := rand.New(rand.NewPCG(1, 2))
	longest := 0
	for _, cell := range cells {
		random.Shuffle(len(cell), func(i, j int) { cell[i], cell[j] = cell[j], cell[i] })
		longest = max(longest, len(cell))
	}
	var all []trouble
	for turn := range longest {
		for _, cell := range cells {
			if turn < len(cell) {
				all = append(all, cell[turn])
			}
		}
	}
	return all
}

// everyPair is which run in a row has two faults at once, while there are single ones left to try.
const everyPair = 4

// run n of all: the single faults in their order, and between them two at once, after them two or three. Where there are several,
// the world is drawn too.
func (r record) run(n int) (setting, []trouble) {
	random := rand.New(rand.NewPCG(uint64(n), 3))
	all, single := r.order(), n-n/everyPair
	if n%everyPair != everyPair-1 && single < len(all) {
		if one := all[single]; one.phase != restoring {
			return plain, []trouble{one}
		}
		return settingOf(random, true), []trouble{all[single]}
	}
	cells := r.singles()
	in := settingOf(random, false)
	pickTrouble := func(phase string) trouble {
		return pick(random, pick(random, slices.DeleteFunc(slices.Clone(cells), func(cell []trouble) bool {
			return phase != "" && cell[0].phase != phase || cell[0].phase == restoring && in.restore == ""
		})))
	}
	first := pickTrouble("")
	troubles := []trouble{first, pickTrouble(first.phase)}
	if single >= len(all) && random.IntN(2) == 0 {
		troubles = append(troubles, pickTrouble(""))
	}
	return in, troubles
}
