package faults

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/fault"
)

// The local cloud may learn new ways to fail; each of its fields is used by some effect that is tried.
func TestEffects_useAllThatTheCloudCanDoWrong(t *testing.T) {
	used := map[string]bool{}
	for _, e := range effects() {
		fieldsUsed(used, reflect.ValueOf(e.Effect), "")
	}
	// A create that acts twice breaks the rule of every run that a machine has one server at a time. jobrunner/operation
	// TestCreate_twoServers tries it.
	used["Repeat"] = true
	var all []string
	for _, name := range fieldNames(reflect.TypeFor[fault.Effect](), "") {
		if !used[name] {
			all = append(all, name)
		}
	}
	require.Empty(t, all, "no run tries what these fields of fault.Effect can do")
}

func fieldsUsed(used map[string]bool, v reflect.Value, prefix string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	for of, field := range v.Fields() {
		name := prefix + of.Name
		if field.IsZero() {
			continue
		}
		used[name] = true
		if field.Kind() == reflect.Pointer {
			fieldsUsed(used, field, name+".")
		}
	}
}

func fieldNames(of reflect.Type, prefix string) []string {
	var names []string
	for field := range of.Fields() {
		names = append(names, prefix+field.Name)
		if field.Type.Kind() == reflect.Pointer {
			names = append(names, fieldNames(field.Type.Elem(), prefix+field.Name+".")...)
		}
	}
	return names
}

// small is what a run might have recorded.
func small() record {
	r := record{creating: {}, removing: {}, restoring: {}}
	for _, phase := range phases {
		r[phase][manager] = []string{"GET api/v1", "PATCH api/v1", "POST api/v1", "DELETE api/v1"}
		r[phase][pod] = []string{"GET api/v1", "PATCH api/v1"}
		r[phase][atCloud] = []string{"GET /v2/droplets"}
		r.uses(phase, disk{Pages: 2, Inodes: spareInodes + 2})
	}
	r[creating][atCloud] = append(r[creating][atCloud], fault.CreateDroplet)
	return r
}

func TestOrder_eachKindComesFirstAndEachPointOnce(t *testing.T) {
	r := small()
	cells, order := r.singles(), r.order()
	first := map[string]bool{}
	for _, one := range order[:len(cells)] {
		first[one.phase+one.place+one.kind] = true
	}
	require.Len(t, first, len(cells))
	seen := map[trouble]bool{}
	for _, one := range order {
		require.False(t, seen[one], "%v twice", one)
		seen[one] = true
	}
	sum := 0
	for _, cell := range cells {
		sum += len(cell)
	}
	require.Len(t, order, sum)
}

func TestRun_isTheSameEachTimeAndTriesAll(t *testing.T) {
	r, tried := small(), map[trouble]bool{}
	worlds, several := map[setting]bool{}, map[int]bool{}
	for n := range 3 * len(r.order()) {
		in, troubles := r.run(n)
		again, once := r.run(n)
		require.Equal(t, fmt.Sprint(in, troubles), fmt.Sprint(again, once))
		worlds[in], several[len(troubles)] = true, true
		for _, one := range troubles {
			require.False(t, one.phase == restoring && in.restore == "", "nothing is restored in world %v", in)
		}
		if len(troubles) == 1 {
			tried[troubles[0]] = true
			continue
		}
		require.Equal(t, troubles[0].phase, troubles[1].phase, "two at once")
	}
	require.Equal(t, map[int]bool{1: true, 2: true, 3: true}, several)
	for habit := range habits {
		for _, restore := range append(restores, "") {
			require.True(t, worlds[setting{habit: habit, restore: restore}], "%s, %s", habit, restore)
		}
	}
	for _, one := range r.order() {
		require.True(t, tried[one], "%v is never tried", one)
	}
}

func TestStruck_onlyWhatMakesSense(t *testing.T) {
	require.NotContains(t, struck(creating, manager, "GET api/v1"), "conflict")
	require.Contains(t, struck(creating, manager, "PATCH api/v1"), "conflict")
	require.Contains(t, struck(removing, manager, "DELETE api/v1"), "stale cache")
	require.NotContains(t, struck(removing, manager, "GET api/v1"), "stale cache")
	require.Contains(t, struck(creating, pod, "GET api/v1"), "machine deleted")
	require.NotContains(t, struck(removing, pod, "GET api/v1"), "machine deleted")
	require.Contains(t, struck(creating, atCloud, fault.CreateDroplet), "never boots")
	require.NotContains(t, struck(creating, atCloud, "GET /v2/droplets"), "never boots")
	require.Equal(t, []string{noPages}, struck(creating, onDisk, noPages))
}

func TestDisk_growsFromNothing(t *testing.T) {
	r := small()
	require.Equal(t, 1, trouble{phase: creating, place: onDisk, kind: noPages, index: 0}.disk(r).Pages)
	require.Equal(t, spareInodes, trouble{phase: creating, place: onDisk, kind: noInodes, index: 2}.disk(r).Inodes)
	require.Equal(t, spareInodes+1, trouble{phase: creating, place: onDisk, kind: noInodes, index: 3}.disk(r).Inodes)
	require.Equal(t, ampleDisk.Inodes, trouble{phase: creating, place: onDisk, kind: noPages, index: 1}.disk(r).Inodes)
}

func TestReport_countsPointsAndFailures(t *testing.T) {
	told := newReport(7)
	one := trouble{phase: creating, place: manager, kind: "killed after", index: 3}
	other := trouble{phase: creating, place: manager, kind: "conflict", index: 3}
	always := func(trouble) bool { return true }
	told.add(7, plain, []trouble{one}, always, nil)
	told.add(8, setting{habit: "inline", restore: asApplied, namesake: true}, []trouble{one, other}, always, errLost)
	told.add(9, plain, []trouble{other}, func(trouble) bool { return false }, nil)
	out := &strings.Builder{}
	require.NoError(t, told.print(out))
	require.Equal(t, `PHASE   WHERE    FAULT         TRIED  STRUCK  POINTS  FAILED
create  manager  conflict      2      1       1       1
create  manager  killed after  2      2       1       1
8, user data inline, restored as applied, namesake by ID: [create: killed after, manager request 3 () create: conflict, manager request 3 ()]: the connection was lost before the answer came

distinct points: 1 (create manager 1)
distinct kills:  1 (create manager 1)
worlds: namesake by ID 1, restored as applied 1, restored not 2, user data inline 1, user data path 2
3 runs from number 7: 2 with one fault, 1 with two, 0 with three; 2 kinds of fault by phase and place
1 failed [8]
`, out.String())
}
