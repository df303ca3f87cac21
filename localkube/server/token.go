package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

// JoinToken makes a token with which machines can join the cluster of a data
// directory until its life has passed.
func JoinToken(dataDir string, role pki.Role, life time.Duration) (pki.Token, error) {
	if role != pki.RoleAgent && role != pki.RoleServer {
		return pki.Token{}, fmt.Errorf("unknown role %q: a token is for an %s or a %s", role, pki.RoleAgent, pki.RoleServer)
	}
	if life <= 0 {
		return pki.Token{}, fmt.Errorf("a token cannot last %s: set --ttl to what machines need to join, like 1h", life)
	}
	dir, err := datadir.Locate(dataDir)
	if err != nil {
		return pki.Token{}, err
	}
	_, known, err := dir.LoadConfig()
	if err != nil {
		return pki.Token{}, err
	}
	if !known {
		return pki.Token{}, errors.New("no server has run on this data directory: a token is made where one has")
	}
	store, err := pki.Read(dir.Path("pki"))
	if err != nil {
		return pki.Token{}, err
	}
	return store.Temporary(role, time.Now().Add(life))
}
