// Package bootstrap is stage 3: it writes the script that turns a new server into one of ours. The
// script fetches the agent from the manager's endpoint, verifies it and starts it; the agent does
// the rest by its plan.
//
// It is pure. It reads an Install. controllers/rkebootstrap puts the script into the bootstrap
// Secret, from where it reaches the server as user data or over SSH (packages userdata, jobrunner).
// The agent then registers with the token.
package bootstrap
