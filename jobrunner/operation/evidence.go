package operation

import "github.com/drover-project/drover/state"

// evidence holds all known facts about a machine's server. A source that was not asked yet has the
// zero value.
type evidence struct {
	purpose purpose
	// phase is the journal's phase: while a server is removed, the phase before the removal began;
	// otherwise the present one.
	phase state.Phase
	// naming and inSteps belong to the driver (see clouds.Cloud). lags is true if the cloud's lists
	// lag.
	naming  naming
	inSteps bool
	lags    bool
	// record classifies the driver's record. tagged is true if the record holds this machine's tag.
	record recordNames
	tagged bool
	// tag is the owner, by its tag, of the server that the record names.
	tag tagSays
	// driver and finder are their last answers. After a removal both must be asked again.
	driver driverSays
	finder finderSays
	// removal is the outcome of the driver's removal.
	removal removal
	// inherited is true if the state belongs to an earlier machine of this name: it came from a
	// backup or another management cluster.
	inherited bool
	// looked is true if the user has checked the cloud since the server was requested, and wants
	// another.
	looked bool
	// refusal classifies the error of a failed create.
	refusal refusal
}

// purpose is why existence is asked for.
type purpose int

const (
	// forCreate: take over the server of an earlier attempt, or make sure that none exists before
	// creating one.
	forCreate purpose = iota
	// forFailure: find out whether a failed create has left a server.
	forFailure
	// forRemove: make sure that no server is left.
	forRemove
)

// naming is how a driver knows its server.
type naming int

const (
	// byRecord: the field of the record that names the server is unknown.
	byRecord naming = iota
	byID
	byName
	// byNameOrID: by the ID that the record has, and without one by name; it removes by ID only.
	byNameOrID
)

// recordNames classifies the driver's record by how it names the server.
type recordNames int

const (
	noRecord recordNames = iota
	// namesNothing: the record has the options of a server that was not known yet.
	namesNothing
	// mayName: the record changed while its driver created the server, and the field that names a
	// server is unknown. The record names a server if the driver returns a state of it.
	mayName
	// namesServer: the record names the server by the machine's name or in an unknown field.
	namesServer
	// namesID: the server's ID.
	namesID
)

// tagSays is the owner of a server by its tag.
type tagSays int

const (
	tagUnread tagSays = iota
	// tagOurs also stands for a server without our tags (taken over, or created before Drover set
	// tags), for a server that does not exist, and for a cloud without readable tags: the record
	// then counts.
	tagOurs
	tagAnothers
	tagUnreadable
)

// driverSays is the driver's answer about the server.
type driverSays int

const (
	driverUnasked driverSays = iota
	saysExists
	saysGone
	saysNothing
)

// finderSays is the result of the finder's search for this machine's tag.
type finderSays int

const (
	noFinder finderSays = iota
	finderUnasked
	// foundNoneYet: the answer to a lost request may still come.
	foundNoneYet
	foundNone
	// foundOne: one finished server whose key is available.
	foundOne
	// foundUseless: several servers, or one that is unusable.
	foundUseless
	findFailed
	// findUncertain: a server exists, and its owner is unknown.
	findUncertain
)

// removal is the outcome of the driver's removal.
type removal int

const (
	notTried removal = iota
	removed
	// removedNothing: the driver reports that an object does not exist, which may not be the
	// server.
	removedNothing
	removalFailed
)

// refusal classifies the cloud's error after a failed create.
type refusal int

const (
	// refusedNothing: the cloud may have made a server.
	refusedNothing refusal = iota
	refusedAll
	// refusedName: there is another's server of that name.
	refusedName
)

// action is the next step.
type action int

const (
	// These find out more.

	// readTag reads whose the server is that the record names.
	readTag action = iota
	// askDriver asks the driver whether its server exists.
	askDriver
	// find asks the finder; search asks longer, for a server whose response was lost; findAgain
	// asks a second time.
	find
	search
	findAgain

	// These change something.

	// spare forgets a record that names another machine's server.
	spare
	// removeByDriver lets the driver remove its server.
	removeByDriver
	// removeFound removes the servers that the finder found.
	removeFound
	// forget forgets the record of a server that is gone.
	forget
	// confirmGone records that no server exists.
	confirmGone

	// These end it.

	// makeNew: certainly no server exists, and the driver may create one.
	makeNew
	// take takes over the server in the record, takeFound the server that the finder found.
	take
	takeFound
	// spareNamesake: the server with the machine's name belongs to another machine, and this
	// machine has none.
	spareNamesake
	// nothingLeft ends a removal.
	nothingLeft
	// nothingLeftOnRecord ends a removal because the journal records that no server exists: no
	// other source could be asked.
	nothingLeftOnRecord
	// keep leaves the server of a failed create to the next attempt; keepRecorded also advances the
	// journal to recorded.
	keep
	keepRecorded
	// mayExist: only the user can find out.
	mayExist
	// giveUp ends with the error met last.
	giveUp
)
