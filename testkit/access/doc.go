// Package access compares a program's rights with its requests. A Recorder stands between the
// program and a real API server and notes every request; rules of Roles become grants; Compare
// names requests without a grant and grants that no request used.
package access
