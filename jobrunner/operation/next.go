package operation

import "github.com/drover-project/drover/state"

// evidence is all that is known of a machine's server. What nobody has asked for yet is zero.
type evidence struct {
	purpose purpose
	// phase of the journal: before the operation began when a server is removed, else the present one.
	phase state.Phase
	// naming and inSteps are the driver's (see clouds.Cloud); lags that its cloud's lists lag behind what it has.
	naming  naming
	inSteps bool
	lags    bool
	// record is what the driver's record names; tagged that it holds this machine's tag.
	record recordNames
	tagged bool
	// tag is what the tag says of the server that the record names.
	tag tagSays
	// driver and finder are what these two said last. After a removal both have to be asked again.
	driver driverSays
	finder finderSays
	// removal is what came of the driver's removal.
	removal removal
	// looked says that the user has looked at the cloud since it was asked for a server, and wants another.
	looked bool
	// refusal is what the error of a failed create says.
	refusal refusal
}

// purpose is why existence is asked for.
type purpose int

const (
	// forCreate: a server of an earlier attempt is taken, or surely none is there before one is made.
	forCreate purpose = iota
	// forFailure: the driver's create has failed; what did it leave?
	forFailure
	// forRemove: nothing may be left.
	forRemove
)

// naming is how a driver knows its server.
type naming int

const (
	// byRecord: nobody knows which field of the record names it.
	byRecord naming = iota
	byID
	byName
	// byNameOrID: by the ID that the record has, and without one by name; it removes by ID only.
	byNameOrID
)

// recordNames is what the driver's record names.
type recordNames int

const (
	noRecord recordNames = iota
	// namesNothing: the record has the options of a server that was not known yet.
	namesNothing
	// namesServer: the server, by the machine's name or in a field that nobody knows.
	namesServer
	// namesID: the server's ID.
	namesID
)

// tagSays is whose server the tag says it is.
type tagSays int

const (
	tagUnread tagSays = iota
	// tagOurs is also said of a server without a tag of ours (taken over, or made before there were tags), of one that is not
	// there, and where the cloud has no tags that could be read: the record is believed then.
	tagOurs
	tagAnothers
	tagUnreadable
)

// driverSays is what the driver says of the server.
type driverSays int

const (
	driverUnasked driverSays = iota
	saysExists
	saysGone
	saysNothing
)

// finderSays is what the finder found by this machine's tag.
type finderSays int

const (
	noFinder finderSays = iota
	finderUnasked
	// foundNoneYet: the answer to a lost request may still come.
	foundNoneYet
	foundNone
	// foundOne is finished, and its key is at hand.
	foundOne
	// foundUseless: several, or one that nobody can use.
	foundUseless
	findFailed
	// findUncertain: there is a server that may be the machine's or somebody else's.
	findUncertain
)

// removal is what came of asking the driver to remove.
type removal int

const (
	notTried removal = iota
	removed
	// removedNothing: the driver says that something is not there, which may be something else than the server.
	removedNothing
	removalFailed
)

// refusal is what a failed create's error says of the cloud.
type refusal int

const (
	// refusedNothing: the cloud may have made a server.
	refusedNothing refusal = iota
	refusedAll
	// refusedName: there is another's server of that name.
	refusedName
)

// action is what to do next.
type action int

const (
	// These find out more.

	// readTag reads whose the server is that the record names.
	readTag action = iota
	// askDriver asks the driver whether the server exists that it goes by.
	askDriver
	// find asks the finder; search asks longer, for a server whose answer was lost; findAgain is the second of two.
	find
	search
	findAgain

	// These change something.

	// spare forgets a record that names another machine's server.
	spare
	// removeByDriver lets the driver remove the server that it goes by.
	removeByDriver
	// removeFound removes what the finder found.
	removeFound
	// forget forgets the record of a server that is gone.
	forget
	// confirmGone writes down that there is no server.
	confirmGone

	// These end it.

	// makeNew: there surely is none, and one may be made.
	makeNew
	// take takes the server of the record, takeFound the one that was found.
	take
	takeFound
	// spareNamesake: the server of the machine's name is another's, and there is none of this machine's.
	spareNamesake
	// nothingLeft ends a removal.
	nothingLeft
	// nothingLeftOnRecord ends a removal by the journal's word, for nobody else could be asked.
	nothingLeftOnRecord
	// keep leaves what a failed create has left to the next attempt; keepRecorded has the record name it.
	keep
	keepRecorded
	// mayExist: nobody but the user can tell.
	mayExist
	// giveUp ends with the error met last.
	giveUp
)

// isEnd reports whether nothing comes after the action.
func (a action) isEnd() bool { return a >= makeNew }

// next decides from what is known. It is the only place that does.
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

// wasCutOff reports whether an attempt ended before its driver said that the server was made: lists of the cloud may lag
// behind what it has.
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

// isProvable reports whether a tag proves whose the server is that the driver knows by its name only.
func (e evidence) isProvable() bool { return e.finder != noFinder && e.naming == byName && e.tagged }

func (e evidence) isNamed() bool { return e.record >= namesServer }

// goesByName reports whether the driver knows a server by the machine's name, always or where it has no ID.
func (e evidence) goesByName() bool { return e.naming == byName || e.naming == byNameOrID }

// isFound reports whether the finder found a server with this machine's tag.
func (e evidence) isFound() bool { return e.finder == foundOne || e.finder == foundUseless }

// ask asks the finder, longer when the answer to a request was lost.
func (e evidence) ask(lost bool) action {
	if lost {
		return search
	}
	return find
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
	if e.isNamed() && e.phase != state.PhaseGone && !e.isProvable() {
		return e.takeRecorded()
	}
	switch {
	case e.finder != noFinder:
		return e.takeByTag()
	case !mayHaveServer(e.phase):
		return makeNew
	case e.goesByName():
		return e.clearName()
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
	case e.driver == saysGone && !e.isFound():
		return forget
	case e.inSteps && !isCreated(e.phase):
		return removeByDriver
	}
	return take
}

// takeByTag is about a server of which only the tag is known. After a driver was told that its server is gone, the finder is
// asked for long only where lists lag behind.
func (e evidence) takeByTag() action {
	switch e.finder {
	case finderUnasked:
		if e.driver == saysGone {
			return e.ask(e.lags && wasCutOff(e.phase))
		}
		return e.ask(mayHaveServer(e.phase))
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

// clearName is about a server of the machine's name that a driver never finished or whose record and SSH key are lost: what it
// made is of no use.
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

// afterFailure: a server that exists is left to the next attempt, which takes it. Where the record has to have an ID and has
// none, what exists is not proved to be ours.
func (e evidence) afterFailure() action {
	switch {
	case e.phase == state.PhaseGone:
		return keep
	case e.isNamed(), e.finder == noFinder && e.refusal != refusedName && e.goesByName():
		return e.leaveRecordedOne()
	case e.finder == noFinder && e.refusal != refusedNothing:
		return confirmGone
	}
	switch e.finder {
	case finderUnasked:
		return find
	case foundNoneYet:
		return findAgain
	case foundNone:
		return confirmGone
	case foundOne:
		return takeFound
	case foundUseless:
		return removeFound
	case noFinder:
		return mayExist // another attempt could ask nobody either
	case findFailed, findUncertain:
	}
	return keep
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

// beforeGone lets the driver remove what its record names, and then the finder what remains.
//
// A driver that goes by names is not let loose where the finder finds no server of this machine's, if none was ever asked for
// or there is one all the same: then the name is another machine's.
func (e evidence) beforeGone() action {
	switch {
	case e.isNamed() && e.tag == tagUnread:
		return readTag
	case e.tag == tagUnreadable:
		return e.unlessGone()
	case e.isNamed() && e.tag == tagAnothers:
		return spare
	}
	if e.removal == notTried && e.tag != tagAnothers && (e.isNamed() || e.goesByName()) {
		if act, decided := e.namesakeFirst(); decided {
			return act
		}
		return removeByDriver
	}
	if e.driver == driverUnasked && (e.removal == removedNothing || e.removal == removed && !e.isNamed()) {
		return askDriver
	}
	return e.whatRemains()
}

// namesakeFirst asks whether the server of the machine's name is another's, where a tag tells.
func (e evidence) namesakeFirst() (a action, decided bool) {
	if e.naming != byName || mayHaveServer(e.phase) && !e.tagged {
		return 0, false
	}
	switch e.finder {
	case finderUnasked:
		return e.ask(wasCutOff(e.phase)), true
	case findFailed, findUncertain:
		return e.unlessGone(), true
	case noFinder, foundOne, foundUseless:
		return 0, false
	case foundNoneYet, foundNone:
	}
	switch {
	case !mayHaveServer(e.phase):
		return nothingLeft, true
	case e.driver == driverUnasked:
		return askDriver, true
	case e.driver == saysExists:
		return spareNamesake, true
	case e.driver == saysNothing:
		return giveUp, true
	}
	return 0, false // what belonged to it may be there
}

// whatRemains is about what the driver did not remove.
func (e evidence) whatRemains() action {
	certain, failed := e.isCertain(), e.removalWasFailure()
	switch e.finder {
	case noFinder:
		switch {
		case failed:
			return giveUp
		case certain, !mayHaveServer(e.phase):
			return nothingLeft
		}
		return mayExist
	case finderUnasked:
		return e.ask(mayHaveServer(e.phase) && (!certain || e.lags && wasCutOff(e.phase)))
	case foundOne, foundUseless:
		return removeFound
	case findFailed, findUncertain:
		if failed {
			return giveUp
		}
		return e.unlessGone()
	case foundNoneYet, foundNone:
	}
	switch {
	case !failed, e.record != namesID, e.driver == saysGone:
		return nothingLeft
	case e.driver == driverUnasked:
		// A server without our tags, such as one taken over from Rancher, is known to the driver alone.
		return askDriver
	}
	return giveUp
}

// isCertain reports whether it is known without the finder that the driver has left nothing.
func (e evidence) isCertain() bool {
	switch {
	case e.tag == tagAnothers && e.naming == byName, e.removal == removed && e.isNamed():
		return true
	case e.removal == removed, e.removal == removedNothing:
		return e.driver == saysGone
	}
	return false
}

// removalWasFailure reports whether the driver failed to remove, or a server is there all the same. A driver that goes by an ID
// leaves a server alone whose ID it was not given: that is of account only if there may be one of this machine's.
func (e evidence) removalWasFailure() bool {
	switch {
	case e.removal == removalFailed:
		return true
	case e.removal == notTried, e.removal == removed && e.isNamed():
		return false
	case e.driver == saysExists:
		return e.removal == removedNothing || e.naming == byName || e.naming == byRecord || mayHaveServer(e.phase)
	}
	return e.driver == saysNothing
}

// unlessGone ends with the error met, unless the journal says that there is no server: no credential that expired since may
// keep the machine from being deleted.
func (e evidence) unlessGone() action {
	if e.phase == state.PhaseGone {
		return nothingLeftOnRecord
	}
	return giveUp
}
