// Package userdata is the pure part of stage 3: it joins the bootstrap data of a bootstrap provider
// with the user's own cloud-init, in the form and size that the driver's cloud accepts as user
// data.
//
// It reads and writes nothing. The machine controller uses it to check sizes early, the Job
// (jobrunner/operation) to make the driver's file. docs/userdata.md describes the rules.
package userdata
