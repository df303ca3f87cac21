package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

// Status is what is known of a data directory from outside.
type Status struct {
	DataDir string `json:"dataDir"`
	// Running tells whether a process holds the directory, PID which.
	Running bool `json:"running"`
	PID     int  `json:"pid,omitempty"`
	// Ready tells whether its API server says it is ready.
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
	if status.PID, err = dir.Holder(); err != nil {
		return Status{}, err
	}
	if status.Running = status.PID != 0; !status.Running {
		status.Reason = "nothing runs on this data directory"
		return status, nil
	}
	cfg, known, err := dir.LoadConfig()
	if err != nil {
		return Status{}, err
	}
	// The kubeconfig is the last thing a first start writes.
	if _, err := os.Stat(dir.Kubeconfig()); err != nil || !known {
		status.Reason = "the server is starting"
		return status, nil
	}
	return status, status.probe(ctx, dir, cfg)
}

func (s *Status) probe(ctx context.Context, dir datadir.Dir, cfg datadir.Config) error {
	store, err := pki.Open(dir.Path("pki"))
	if err != nil {
		return err
	}
	plane := controlplane.Options{Dir: dir, Config: cfg, Store: store, BindAddress: net.IPv4zero}
	s.URL, s.Kubeconfig, s.NodeName = plane.URL(), dir.Kubeconfig(), cfg.NodeName
	if err := plane.Ready(ctx); err != nil {
		s.Reason = err.Error()
		return nil
	}
	s.Ready = true
	return nil
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
		state = fmt.Sprintf("running (process %d), not ready", s.PID)
	}
	if s.Ready {
		state = fmt.Sprintf("ready (process %d)", s.PID)
	}
	row("data dir", s.DataDir)
	row("state", state)
	row("reason", s.Reason)
	row("url", s.URL)
	row("kubeconfig", s.Kubeconfig)
	row("node", s.NodeName)
	return out.String()
}
