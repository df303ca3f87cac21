// Package profile is what Drover knows of single drivers beyond what they say themselves, as data: which field of a driver's
// record names the server, the form of its providerID, the flag for tags, the flags with which one brings an SSH key, and what
// its error texts mean. It is pure. A driver without a profile works too; docs/drivers.md says what it lacks.
package profile
