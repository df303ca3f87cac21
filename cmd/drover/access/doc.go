// Package access gives the user's own OpenSSH the files that a login to a server needs. The key and
// the host key come from the machine's state Secret. `drover ssh` and `drover scp` write them to
// files for one run; `drover keys` writes files that stay.
package access
