// Package datadir owns what localkube keeps on disk: the paths below one data
// directory, the settings that must survive a restart (ports, names, address
// ranges) and the lock that lets one process at a time use them.
//
// It reads and writes DATA/config.json and DATA/lock. Everything else in the
// directory belongs to the package that writes it; they all ask Dir for paths.
package datadir
