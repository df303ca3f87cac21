// Package isoimage writes and reads the small CD images that bring cloud-init its seed: a handful
// of files in one folder, with Rock Ridge names for Linux and Joliet names for Windows. The vSphere
// driver calls a program mkisofs for this; Command is that program, so that the Job's image needs
// no other.
//
// It reads the files that the driver wrote and writes the image that the driver uploads; e2e's
// vCenter simulator reads it.
package isoimage
