// Package machinedir keeps the driver's machine directory in the layout of rancher/machine, so that
// machines can be taken over from Rancher: <store>/machines/<name> with config.json, id_rsa and the
// driver's other files. It is read from and written to the archive in the state Secret, without
// credentials and user data.
package machinedir
