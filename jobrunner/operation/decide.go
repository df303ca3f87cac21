package operation

import "github.com/drover-project/drover/state"

// next decides the next action from the evidence. No other function decides.
func next(e evidence) action {
	switch e.purpose {
	case forFailure:
		return e.afterFailure()
	case forRemove:
		return e.beforeGone()
	case forCreate:
	}
	act := e.beforeCreate()
	switch {
	case e.inherited && (act == removeByDriver || act == removeFound):
		return mayExist // it exists, and is unfinished by the word of a backup that may be older
	case act != mayExist || !e.looked:
		return act
	case mayHaveServer(e.phase):
		return confirmGone
	}
	return makeNew
}

// mayHaveServer reports whether a journal of that phase means that a server may exist.
func mayHaveServer(phase state.Phase) bool {
	return phase != "" && phase != state.PhaseGone
}

// wasCutOff reports whether an attempt ended before its driver reported that the server was made.
// The cloud's lists may lag.
func wasCutOff(phase state.Phase) bool {
	return phase == state.PhaseIntent || phase == state.PhaseRecorded || phase == state.PhaseLost
}

// isRecorded and isCreated report whether a create came that far.
func isRecorded(phase state.Phase) bool {
	return phase == state.PhaseRecorded || isCreated(phase)
}

func isCreated(phase state.Phase) bool {
	return phase == state.PhaseCreated || phase == state.PhaseBootstrapped
}

func (e evidence) isNamed() bool { return e.record >= namesServer }

// goesByName reports whether the driver identifies a server by the machine's name, always or if it
// has no ID.
func (e evidence) goesByName() bool { return e.naming == byName || e.naming == byNameOrID }

// ask asks the finder, longer when the answer to a request was lost.
func (e evidence) ask(lost bool) action {
	if lost {
		return search
	}
	return find
}

// askWhere asks the finder for a server that may exist. If the other evidence is certain that the
// server does not exist, it searches longer only if the cloud's lists lag.
func (e evidence) askWhere(isCertain bool) action {
	return e.ask(mayHaveServer(e.phase) && (!isCertain || e.lags && wasCutOff(e.phase)))
}

// beforeCreate:
//
//	record names a server ──exists──▶ take           ──gone──▶ forget, and the finder has to agree
//	                        (unfinished, by a driver that works in steps ──▶ remove; with another's tag ──▶ spare)
//	else, with a finder   ──found───▶ take, or remove when it is unfinished or its SSH key is lost
//	                        (also a record whose name may be another's by now, if its server has our tags)
//	else, named by machine──exists──▶ remove         ──gone──▶ make new
//	else, a server may exist ───────▶ the user decides
func (e evidence) beforeCreate() action {
	// A tag proves whose the server is that the driver knows by its name only.
	isProvable := e.finder != noFinder && e.naming == byName && e.tagged
	if e.isNamed() && e.phase != state.PhaseGone && !isProvable {
		return e.takeRecorded()
	}
	switch {
	case e.finder != noFinder:
		return e.takeByTag()
	case !mayHaveServer(e.phase):
		return makeNew
	case e.goesByName():
		return e.clearName()
	case e.record == mayName && e.driver == driverUnasked:
		return askDriver
	}
	return mayExist
}

// takeRecorded is about the server that the record names.
func (e evidence) takeRecorded() action {
	switch {
	case e.tag == tagUnread:
		return readTag
	case e.tag == tagAnothers:
		return spare
	case e.tag == tagUnreadable, e.removal == removalFailed:
		return giveUp
	case e.removal == removed:
		return forget
	case e.driver == driverUnasked:
		return askDriver
	case e.driver == saysGone && e.naming == byName && e.finder == finderUnasked:
		return find // a driver may say "none" when its cloud does not answer, as Google's does
	case e.driver == saysNothing, e.removal == removedNothing && e.driver == saysExists, e.finder == findFailed, e.finder == findUncertain:
		return giveUp
	case e.driver == saysGone && e.finder != foundOne && e.finder != foundUseless:
		return forget
	case e.inSteps && !isCreated(e.phase):
		return removeByDriver
	}
	return take
}

// takeByTag decides for a server that is known by its tag only.
func (e evidence) takeByTag() action {
	switch e.finder {
	case finderUnasked:
		return e.askWhere(e.driver == saysGone)
	case foundOne:
		return takeFound
	case foundUseless:
		return removeFound
	case findFailed:
		return giveUp
	case findUncertain:
		return mayExist
	case noFinder, foundNoneYet, foundNone:
	}
	if mayHaveServer(e.phase) {
		return confirmGone
	}
	return makeNew
}

// clearName decides for a server with the machine's name that a driver never finished, or whose
// record and SSH key are lost: such a server is useless.
func (e evidence) clearName() action {
	switch {
	case e.removal == removalFailed:
		return giveUp
	case e.driver == driverUnasked:
		return askDriver
	case e.driver == saysGone, e.tag == tagAnothers && e.naming == byName:
		return confirmGone
	case e.driver == saysNothing && e.removal == notTried:
		return giveUp
	case e.tag == tagAnothers:
		return mayExist
	case e.removal == notTried:
		return removeByDriver
	case e.naming == byNameOrID:
		return mayExist // without the ID that was lost, the driver does not touch it
	}
	return giveUp
}

// afterFailure leaves an existing server to the next attempt, which takes it over. If the record
// needs an ID and has none, an existing server is not proven to be ours.
func (e evidence) afterFailure() action {
	switch {
	case e.phase == state.PhaseGone:
		return keep
	case e.record == mayName && e.driver == driverUnasked:
		return askDriver
	case e.isNamed(), e.finder == noFinder && e.refusal != refusedName && e.goesByName():
		return e.leaveRecordedOne()
	case e.finder == noFinder && e.refusal != refusedNothing && (e.record != mayName || e.driver == saysGone):
		// Without another source the refusal counts. If the record changed, the refusal may belong
		// to a step after the server was made.
		return confirmGone
	}
	return map[finderSays]action{
		finderUnasked: find, foundNoneYet: findAgain, foundNone: confirmGone, foundOne: takeFound, foundUseless: removeFound,
		noFinder:   mayExist, // another attempt would have no other source either
		findFailed: keep, findUncertain: keep,
	}[e.finder]
}

func (e evidence) leaveRecordedOne() action {
	exists := e.driver == saysExists
	switch {
	case e.driver == driverUnasked:
		return askDriver
	case e.driver == saysNothing:
		return keep
	case e.finder == noFinder || e.naming != byName || exists && !e.tagged:
		// The driver's word counts.
	case e.finder == finderUnasked:
		return e.ask(e.refusal == refusedNothing)
	default:
		switch e.finder {
		case foundNone, foundNoneYet:
			exists = false
		case foundOne, foundUseless:
			exists = true
		case noFinder, finderUnasked, findFailed, findUncertain:
			return keep
		}
	}
	switch {
	case !exists:
		return confirmGone
	case !isRecorded(e.phase) && (e.naming == byName || e.isNamed()):
		return keepRecorded
	}
	return keep
}

// beforeGone lets the driver remove the server that its record names, and then the finder the rest.
//
// A driver that goes by names does not run in two cases: the tag of the server with that name is
// another machine's; or the finder finds no server of this machine, and either none was ever
// requested or a server with that name exists.
func (e evidence) beforeGone() action {
	switch {
	case e.removal != notTried:
		return e.afterRemoval()
	case (e.isNamed() || e.naming == byName) && e.tag == tagUnread:
		return readTag
	case e.tag == tagUnreadable:
		return e.unlessGone()
	case e.isNamed() && e.tag == tagAnothers:
		return spare
	case e.record == mayName && e.driver == driverUnasked:
		return askDriver
	case e.tag == tagAnothers, e.record < mayName && !e.goesByName():
		return e.whatRemains()
	}
	return e.namesakeFirst()
}

// afterRemoval asks the driver once more if it removed nothing, or if Drover does not know how it
// identified the server.
func (e evidence) afterRemoval() action {
	if e.driver == driverUnasked && (e.removal == removedNothing || e.removal == removed && (!e.isNamed() || e.naming == byRecord)) {
		return askDriver
	}
	return e.whatRemains()
}

// namesakeFirst checks the tag of the server with the machine's name, if it has one, before the
// driver removes it.
func (e evidence) namesakeFirst() action {
	if e.naming != byName || mayHaveServer(e.phase) && !e.tagged {
		return removeByDriver
	}
	switch e.finder {
	case finderUnasked:
		return e.ask(wasCutOff(e.phase))
	case findFailed, findUncertain:
		return e.unlessGone()
	case foundNoneYet, foundNone:
		if !mayHaveServer(e.phase) {
			return nothingLeft
		}
		// The server is gone, but its other resources may exist.
		return map[driverSays]action{driverUnasked: askDriver, saysExists: spareNamesake, saysNothing: giveUp, saysGone: removeByDriver}[e.driver]
	case noFinder, foundOne, foundUseless:
	}
	return removeByDriver
}

// whatRemains decides for the servers that the driver did not remove.
func (e evidence) whatRemains() action {
	certain, failed := e.isCertain(), e.removalWasFailure()
	switch e.finder {
	case finderUnasked:
		return e.askWhere(certain)
	case foundOne, foundUseless:
		return removeFound
	case foundNoneYet, foundNone:
		// A server without our tags, such as one taken over from Rancher, is known to the driver
		// alone.
		if failed && e.record == namesID {
			return map[driverSays]action{driverUnasked: askDriver, saysGone: nothingLeft, saysExists: giveUp, saysNothing: giveUp}[e.driver]
		}
		return nothingLeft
	case noFinder, findFailed, findUncertain:
	}
	switch {
	case failed:
		return giveUp
	case e.finder != noFinder:
		return e.unlessGone()
	case certain, !mayHaveServer(e.phase):
		return nothingLeft
	}
	return mayExist
}

// isCertain reports whether the driver has certainly left nothing, without asking the finder.
func (e evidence) isCertain() bool {
	switch {
	case e.tag == tagAnothers && e.naming == byName, e.removal == removed && e.isNamed():
		return true
	case e.removal == removed, e.removal == removedNothing:
		return e.driver == saysGone && e.record != mayName // such a record may not identify any server
	}
	return false
}

// removalWasFailure reports whether the driver failed to remove the server, or a server still
// exists. A driver that goes by an ID does not touch a server whose ID it does not have. Such a
// server counts only if this machine may have one.
func (e evidence) removalWasFailure() bool {
	switch {
	case e.removal == removalFailed:
		return true
	case e.removal == notTried:
		return false
	case e.removal == removed && e.isNamed():
		return e.naming == byRecord && e.driver == saysExists // an error without words is lost on its way from a plugin
	case e.driver == saysExists:
		return e.removal == removedNothing || e.naming == byName || e.naming == byRecord || mayHaveServer(e.phase)
	}
	return e.driver == saysNothing && e.record != mayName
}

// unlessGone ends with the last error, unless the journal records that no server exists: a
// credential that has expired must not block the machine's deletion.
func (e evidence) unlessGone() action {
	if e.phase == state.PhaseGone {
		return nothingLeftOnRecord
	}
	return giveUp
}
