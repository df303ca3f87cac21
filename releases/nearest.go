package releases

import (
	"maps"
	"slices"
	"strings"
)

// Nearest returns the known argument that a mistyped name stands for; empty if no argument is near.
// It ignores case, and takes an underscore for a dash.
func (r *Release) Nearest(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return Nearest(name, append(slices.Sorted(maps.Keys(r.kinds[server])), slices.Sorted(maps.Keys(r.kinds[agent]))...))
}

// Nearest returns the first of the known words that a mistyped word stands for; empty if none is
// near.
func Nearest(name string, words []string) string {
	nearest, least := "", min(len(name)/3, 2)+1
	for _, known := range words {
		nearest, least = nearer(name, known, nearest, least)
	}
	return nearest
}

// nearer returns known and its distance if it is less than least.
func nearer(name, known, nearest string, least int) (string, int) {
	if max(len(name)-len(known), len(known)-len(name)) >= least {
		return nearest, least // the distance is not less
	}
	if d := distance(name, known); d < least {
		return known, d
	}
	return nearest, least
}

// distance is the number of bytes to insert, remove or replace to make b from a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
