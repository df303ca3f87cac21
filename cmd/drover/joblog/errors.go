package joblog

import "errors"

var errNothing = errors.New("no attempt was made yet, so there is no log")

// IsNothing reports that no attempt was made yet.
func IsNothing(err error) bool { return errors.Is(err, errNothing) }
