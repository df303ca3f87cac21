// Package image unpacks the file system of an OCI image into a folder, without a container runtime.
//
// It reads tarballs in a folder of the server first, and then registries, by way of the mirrors, credentials and certificates of a registries.yaml as k3s
// and RKE2 know it. Of what an image holds, files, folders and links inside are written and nothing else, only below the folder, and not more than
// the bounds; every layer is verified to its end before the folder counts as unpacked.
package image
