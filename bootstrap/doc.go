// Package bootstrap is stage 3: it writes the script that makes a new server one of ours. The script fetches the agent from the manager's
// endpoint, verifies it and starts it; all else is the agent's work, by plan.
//
// It is pure. It reads an Install; controllers/rkebootstrap puts the script into the bootstrap Secret, from where it reaches the server as user
// data or over SSH (packages userdata, jobrunner). The agent, which registers with the token, comes next.
package bootstrap
