// Package image unpacks the file system of an OCI image into a folder, without a container runtime.
//
// It first reads tarballs in a folder of the server, and then registries, with the mirrors,
// credentials and certificates of a registries.yaml in the form of k3s and RKE2. It writes only
// files, folders and links inside the image, only below the folder, and only within the bounds. It
// verifies each layer to its end before the folder counts as unpacked.
package image
