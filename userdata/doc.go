// Package userdata is the pure part of stage 3: it joins the bootstrap data that a bootstrap provider wrote with the
// user's own cloud-init, in the form and size that the driver's cloud takes as user data.
//
// It reads and writes nothing. The machine controller uses it to check sizes early, the Job (jobrunner/operation) to make
// the file it hands to the driver. The rules are written down in docs/userdata.md.
package userdata
