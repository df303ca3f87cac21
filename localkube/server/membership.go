package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

// membership is what an agent keeps of the cluster it has joined.
type membership struct {
	// Server is the URL at which it joined.
	Server      string `json:"server"`
	NodeName    string `json:"nodeName"`
	Address     string `json:"address"`
	APIServer   string `json:"apiServer"`
	PodCIDR     string `json:"podCIDR"`
	ServiceCIDR string `json:"serviceCIDR"`
}

const membershipFile = "agent.json"

// loadMembership reads it; ok is false in a directory that is no agent's.
func loadMembership(dir datadir.Dir) (m membership, ok bool, err error) {
	raw, err := os.ReadFile(dir.Path(membershipFile))
	if errors.Is(err, fs.ErrNotExist) {
		return membership{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		return membership{}, false, fmt.Errorf("reading the agent's settings in %s: %w", dir.Path(membershipFile), err)
	}
	return m, true, nil
}

func (m membership) save(dir datadir.Dir) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the agent's settings: %w", err)
	}
	return dir.Write(append(raw, '\n'), membershipFile)
}

// resume looks whether the agent can go on without an answer, and until when.
// It gives the error back where it cannot, and where the answer was no.
func (a *agent) resume(cause error, address net.IP) (membership, time.Time, error) {
	dial := (*net.OpError)(nil)
	unreachable := errors.As(cause, &dial) && dial.Op == "dial"
	if !unreachable && !errors.Is(cause, pki.ErrTokenExpired) {
		return membership{}, time.Time{}, cause
	}
	m, known, err := loadMembership(a.dir)
	if err != nil {
		return membership{}, time.Time{}, errors.Join(cause, err)
	}
	same := m.Server == a.opts.Server && m.NodeName == a.opts.Node.Name && m.Address == address.String()
	if !known || !same {
		return membership{}, time.Time{}, cause
	}
	var until time.Time
	id := a.identities()
	for _, pair := range []pki.Pair{id.Kubelet, id.KubeletServing, id.Proxy} {
		end, err := pair.Expiry()
		if err != nil {
			return membership{}, time.Time{}, errors.Join(cause, err)
		}
		if until.IsZero() || end.Before(until) {
			until = end
		}
	}
	if !time.Now().Before(until) {
		return membership{}, time.Time{}, fmt.Errorf("the certificates of the last start expired at %s: %w", until.UTC().Format(time.RFC3339), cause)
	}
	return m, until, nil
}
