// Package finder finds servers by our tags, with the cloud's own SDK and the machine's own
// credential. It covers a crash between the cloud's acceptance and the recording of the server's
// ID: a server whose ID was lost is found, adopted or removed.
//
// Each cloud has one small finder. For a cloud without a finder, the user must check (reason
// ServerMayExist).
package finder
