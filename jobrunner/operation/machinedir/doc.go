// Package machinedir keeps the driver's machine directory in the layout of rancher/machine, so that machines can be taken over
// from Rancher: <store>/machines/<name> with config.json, id_rsa and what else the driver puts there. It is read from and
// written to the archive in the state Secret; credentials and user data are left out of what is written.
package machinedir
