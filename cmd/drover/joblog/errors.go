package joblog

import "errors"

// ErrNothing means that no attempt was made yet.
var ErrNothing = errors.New("no attempt was made yet, so there is no log")
