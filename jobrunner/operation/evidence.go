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
	// inherited says that the state is of an earlier machine of this name: it came from a backup, or another management cluster.
	inherited bool
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
	// mayName: a record that changed while its driver created, of which nobody knows the field that names a server. It names one if the
	// driver has a state of that.
	mayName
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
