package operation

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/state"
)

// begun is every evidence with which an inquiry can begin.
func begun() []evidence {
	var all []evidence
	for _, e := range cross([]evidence{{}},
		each([]purpose{forCreate, forFailure, forRemove}, func(e *evidence, v purpose) { e.purpose = v }),
		each([]state.Phase{"", state.PhaseIntent, state.PhaseRecorded, state.PhaseCreated, state.PhaseBootstrapped,
			state.PhaseRemoving, state.PhaseGone, state.PhaseLost}, func(e *evidence, v state.Phase) { e.phase = v }),
		each([]naming{byRecord, byID, byName, byNameOrID}, func(e *evidence, v naming) { e.naming = v }),
		each([]recordNames{noRecord, namesNothing, mayName, namesServer, namesID}, func(e *evidence, v recordNames) { e.record = v }),
		each([]finderSays{noFinder, finderUnasked}, func(e *evidence, v finderSays) { e.finder = v }),
		each([]refusal{refusedNothing, refusedAll, refusedName}, func(e *evidence, v refusal) { e.refusal = v }),
		each([]bool{false, true}, func(e *evidence, v bool) { e.inSteps = v }),
		each([]bool{false, true}, func(e *evidence, v bool) { e.lags = v }),
		each([]bool{false, true}, func(e *evidence, v bool) { e.tagged = v }),
		each([]bool{false, true}, func(e *evidence, v bool) { e.looked = v }),
		each([]bool{false, true}, func(e *evidence, v bool) { e.inherited = v }),
	) {
		switch {
		case e.purpose == forFailure && e.phase != state.PhaseIntent && e.phase != state.PhaseRecorded: // what declareIntent and the recorder write
		case e.purpose != forFailure && e.refusal != refusedNothing, e.purpose != forCreate && (e.looked || e.inherited):
		case e.record == mayName && e.naming != byRecord, e.naming == byName && e.record == namesID, e.naming == byID && e.record == namesServer, e.naming == byNameOrID && e.record == namesServer:
		default:
			all = append(all, e)
		}
	}
	return all
}

func each[T any](values []T, set func(*evidence, T)) func(evidence) []evidence {
	return func(e evidence) []evidence {
		out := make([]evidence, len(values))
		for i, value := range values {
			out[i] = e
			set(&out[i], value)
		}
		return out
	}
}

func cross(all []evidence, ways ...func(evidence) []evidence) []evidence {
	for _, way := range ways {
		var wider []evidence
		for _, e := range all {
			wider = append(wider, way(e)...)
		}
		all = wider
	}
	return all
}

// answers is all that may be known after an action: what inquiry.carryOut can make of it.
func answers(e evidence, act action) []evidence {
	phase := func(e evidence, p state.Phase) evidence {
		if e.purpose != forRemove {
			e.phase = p
		}
		return e
	}
	switch act {
	case readTag:
		return each([]tagSays{tagOurs, tagAnothers, tagUnreadable}, func(e *evidence, v tagSays) { e.tag = v })(e)
	case askDriver:
		return each([]driverSays{saysExists, saysGone, saysNothing}, func(e *evidence, v driverSays) {
			if e.driver = v; v == saysExists && e.removal == notTried && e.record == mayName {
				e.record = namesServer
			}
		})(e)
	case find, search, findAgain:
		out := each([]finderSays{foundNone, foundOne, foundUseless, findFailed}, func(e *evidence, v finderSays) { e.finder = v })(e)
		for i, found := range out {
			if isFound(found) && !mayHaveServer(e.phase) {
				out[i] = phase(found, state.PhaseLost)
			}
		}
		yet, uncertain := e, e
		yet.finder, uncertain.finder = foundNoneYet, findUncertain
		if act == find && e.purpose == forFailure && e.record < namesServer && e.refusal == refusedNothing {
			out[0] = yet
		}
		return append(out, uncertain)
	case spare:
		e.record = noRecord
	case forget:
		e.record = noRecord
		if e.finder != noFinder {
			e.finder = finderUnasked
		} else {
			e = phase(e, state.PhaseGone)
		}
	case confirmGone:
		e = phase(e, state.PhaseGone)
	case removeByDriver:
		e.driver = driverUnasked
		if e.finder != noFinder {
			e.finder = finderUnasked
		}
		return each([]removal{removed, removedNothing, removalFailed}, func(e *evidence, v removal) { e.removal = v })(e)
	case removeFound:
		e.finder = foundNone
	case makeNew, take, takeFound, spareNamesake, nothingLeft, nothingLeftOnRecord, keep, keepRecorded, mayExist, giveUp: // the end
	}
	return []evidence{e}
}

// TestNext walks every way that every inquiry can take and looks at each step.
func TestNext(t *testing.T) {
	seen := map[evidence]bool{}
	ends := map[purpose]map[action]int{forCreate: {}, forFailure: {}, forRemove: {}}
	for _, first := range begun() {
		walk(t, first, nil, seen, ends)
	}
	require.Greater(t, len(seen), 2000)
	for why, want := range map[purpose][]action{
		forCreate:  {makeNew, take, takeFound, mayExist, giveUp},
		forFailure: {keep, keepRecorded, takeFound, mayExist},
		forRemove:  {nothingLeft, nothingLeftOnRecord, spareNamesake, mayExist, giveUp},
	} {
		require.Len(t, ends[why], len(want), "%v", ends[why])
		for _, act := range want {
			require.NotZero(t, ends[why][act], "purpose %d never ends with %d", why, act)
		}
	}
}

func walk(t *testing.T, e evidence, way []action, seen map[evidence]bool, ends map[purpose]map[action]int) {
	t.Helper()
	act := next(e)
	way = append(slices.Clip(way), act)
	if len(way) > 14 {
		t.Fatalf("%v does not end: %+v", way, e)
	}
	// The same evidence can be come by in ways that differ in what is proved.
	for _, wrong := range wrongs(e, act, way) {
		t.Errorf("%s: %v with %+v", wrong, way, e)
	}
	if act >= makeNew {
		ends[e.purpose][act]++
		return
	}
	if seen[e] {
		return
	}
	seen[e] = true
	for _, after := range answers(e, act) {
		walk(t, after, way, seen, ends)
	}
}

// wrongs are the promises that an action breaks.
func wrongs(e evidence, act action, way []action) []string {
	var out []string
	never := func(wrong bool, format string, args ...any) {
		if wrong {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	never(act == makeNew && (mayHaveServer(e.phase) || isFound(e) || e.finder == findFailed || e.finder == findUncertain && !e.looked || e.finder == finderUnasked),
		"makes a server while one may exist")
	never(act == confirmGone && (isFound(e) || e.finder == findFailed || e.finder == findUncertain && !e.looked || e.finder == foundNoneYet), "says gone against the finder")
	never(act == confirmGone && e.finder == finderUnasked && e.driver != saysGone, "says gone without asking the finder")
	never(act == confirmGone && e.finder == noFinder && e.driver != saysGone && e.refusal == refusedNothing && !e.looked && (e.tag != tagAnothers || e.naming != byName),
		"says gone on nobody's word")
	never((act == removeFound || act == removeByDriver) && e.inherited && e.purpose == forCreate, "removes a server that is newer than the backup of its state")
	never((act == take || act == removeByDriver) && e.tag == tagAnothers, "touches another machine's server")
	never((act == take || act == removeByDriver && e.purpose != forFailure && e.record >= namesServer) && e.tag != tagOurs && (e.finder == noFinder || e.naming != byName || !e.tagged),
		"touches a server by its record without having read its tag")
	never(act == removeByDriver && e.purpose == forRemove && e.naming == byName && e.tag != tagOurs, "removes a server by its name without having read its tag")
	never(act == take && e.driver != saysExists && !isFound(e), "takes what is not there")
	never(act == takeFound && e.finder != foundOne, "takes what cannot be used")
	never(act == removeByDriver && e.purpose == forCreate && isCreated(e.phase) && e.record >= namesServer, "destroys a finished server")
	never(act == spareNamesake && (e.finder != foundNone || e.driver != saysExists), "calls a server another's without proof")
	never(act == nothingLeftOnRecord && e.phase != state.PhaseGone, "takes the journal's word for what it does not say")
	never(act == nothingLeft && e.finder != noFinder && e.finder != foundNone, "ends a removal without the finder's word")
	never(act == nothingLeft && e.finder == noFinder && mayHaveServer(e.phase) && e.driver != saysGone && (e.removal != removed || e.record < namesServer) &&
		(e.tag != tagAnothers || e.naming != byName), "ends a removal while a server may be left")
	never((act == take || act == nothingLeft && e.finder == noFinder && mayHaveServer(e.phase)) && e.record == mayName, "believes a record of which nobody knows what it names")
	never(act == confirmGone && e.record == mayName && e.finder == noFinder && e.purpose == forFailure && e.driver != saysGone, "takes a late refusal for one of the server")
	never(act == nothingLeft && e.naming == byRecord && e.finder == noFinder && e.removal == removed && e.driver == saysExists, "calls removed what the driver says is there")
	never(act == nothingLeft && e.record == namesID && e.removal == removalFailed && e.driver != saysGone, "forgets a server that the driver failed to remove")
	never(e.purpose == forFailure && (act == makeNew || act == removeByDriver || act == take), "does more than look after a failure")
	never(act == askDriver && e.driver != driverUnasked || (act == find || act == search) && e.finder != finderUnasked, "asks twice: %v", way)
	return out
}

// isFound reports whether the finder found a server with this machine's tag.
func isFound(e evidence) bool { return e.finder == foundOne || e.finder == foundUseless }
