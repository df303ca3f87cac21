// Package finder looks servers up by our tags, with the cloud's own SDK and the machine's own credential. It closes the moment
// between "the cloud accepted" and "we wrote the id down": a server whose id was lost is found, adopted or removed.
//
// There is one small finder per cloud; a cloud without one leaves that moment to the user (reason ServerMayExist).
package finder
