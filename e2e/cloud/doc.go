// Package cloud is the local cloud: a DigitalOcean-compatible API whose
// droplets are real servers on this machine, or simulated ones for load.
//
// It joins the account, its API, the proxy that leads unmodified drivers to
// it, a file server for downloads and a console, and keeps all its
// state in one directory. Stories and tests start it in process; the command
// localcloud serves it for everything else.
package cloud
