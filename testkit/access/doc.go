// Package access compares what a program may do with what it does. A Recorder stands between the program and a real API
// server and notes every request; rules of Roles become grants; Compare names what was asked for without a grant and what is
// granted and was never asked for.
package access
