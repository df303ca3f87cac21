package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

// Status is what is known of a data directory from outside.
type Status struct {
	DataDir string `json:"dataDir"`
	// Running tells whether a process holds the directory, PID which.
	Running bool `json:"running"`
	PID     int  `json:"pid,omitempty"`
	// Kind is server or agent, once that is known.
	Kind string `json:"kind,omitempty"`
	// Ready tells whether its API server, or an agent's Node, says it is ready.
	Ready bool `json:"ready"`
	// Reason says why it is not.
	Reason     string `json:"reason,omitempty"`
	URL        string `json:"url,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	NodeName   string `json:"nodeName,omitempty"`
}

// ReadStatus looks at a data directory.
func ReadStatus(ctx context.Context, dataDir string) (Status, error) {
	dir, err := datadir.Locate(dataDir)
	if err != nil {
		return Status{}, err
	}
	status := Status{DataDir: dir.Root()}
	if !dir.Exists() {
		status.Reason = "the data directory does not exist"
		return status, nil
	}
	if status.PID, status.Running, err = dir.Holder(); err != nil {
		return Status{}, err
	}
	if !status.Running {
		status.Reason = "nothing runs on this data directory"
		return status, nil
	}
	member, agent, err := loadMembership(dir)
	if err != nil {
		return Status{}, err
	}
	if agent {
		status.Kind, status.URL, status.NodeName = "agent", member.APIServer, member.NodeName
		status.probe(node.Probe(ctx, dir, member.NodeName))
		return status, nil
	}
	err = status.readServer(ctx, dir)
	return status, err
}

func (s *Status) readServer(ctx context.Context, dir datadir.Dir) error {
	cfg, known, err := dir.LoadConfig()
	if err != nil {
		return err
	}
	// The kubeconfig is the last thing a first start writes.
	if _, err := os.Stat(dir.Kubeconfig()); err != nil || !known {
		s.Reason = "the server is starting"
		return nil //nolint:nilerr // not there yet is a state like another
	}
	store, err := pki.Read(dir.Path("pki"))
	if err != nil {
		return err
	}
	plane := controlplane.Options{Dir: dir, Config: cfg, Store: store, BindAddress: net.IPv4zero}
	s.Kind, s.Kubeconfig, s.NodeName = "server", dir.Kubeconfig(), cfg.NodeName
	if s.URL, err = pki.ServerOf(dir.Kubeconfig()); err != nil {
		return err
	}
	s.probe(plane.Ready(ctx, s.URL))
	return nil
}

func (s *Status) probe(err error) {
	if s.Ready = err == nil; !s.Ready {
		s.Reason = err.Error()
	}
}

// String is the status for a human.
func (s Status) String() string {
	var out strings.Builder
	row := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&out, "%-11s %s\n", key, value)
		}
	}
	state := "stopped"
	if s.Running {
		state = "running" + s.process() + ", not ready"
	}
	if s.Ready {
		state = "ready" + s.process()
	}
	row("data dir", s.DataDir)
	row("kind", s.Kind)
	row("state", state)
	row("reason", s.Reason)
	row("url", s.URL)
	row("kubeconfig", s.Kubeconfig)
	row("node", s.NodeName)
	return out.String()
}

func (s Status) process() string {
	if s.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", s.PID)
}
