package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/drover-project/drover/localkube/datadir"
)

const (
	// firstRoom is what a new server writes before it has done anything: etcd
	// takes twice 64 MiB for its log at once. laterRoom lets one start again.
	firstRoom = 200 << 20
	laterRoom = 10 << 20
)

// checkRoom names the directory that is too small: etcd crashes for want of
// space, and what it says of it may not fit into its log.
func checkRoom(dir datadir.Dir) error {
	need := uint64(laterRoom)
	if _, err := os.Stat(dir.Path("etcd", "member")); errors.Is(err, fs.ErrNotExist) {
		need = firstRoom
	}
	room, err := dir.Room()
	if err != nil {
		return err
	}
	if room < need {
		return fmt.Errorf("the file system of %s has room for %d MiB and a server needs %d MiB: make room or name another --data-dir",
			dir.Root(), room>>20, need>>20)
	}
	return nil
}
