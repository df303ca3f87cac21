// Command machine is what runs inside a Job's pod: machine create, remove, scan, or one stage of probe. It reads its
// request from a mounted Secret, for no secret may be in a command line, and leaves its result in the state Secret.
//
// It is also the plugin binary of the built-in drivers, when MACHINE_PLUGIN_TOKEN is set. It is the only program of Drover that
// links cloud drivers. It needs no shell, no other program and no writable directory but HOME and TMPDIR. The vSphere driver
// alone looks for another program, mkisofs: that is this one under a second name, which the image links to it.
package main
