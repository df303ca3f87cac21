// Package access gives the user's own OpenSSH what it needs to log in to a server. The machine's state Secret holds the key and the
// host key; `drover ssh` and `drover scp` write them to files for one run, and `drover keys` writes files that stay.
package access
