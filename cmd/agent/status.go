package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/agent/access"
)

// status is the agent's last work according to its files. It contains no secrets.
type status struct {
	Version    string `json:"version"`
	PlanSecret string `json:"planSecret,omitempty"`
	// AccessReceived and AccessExpires are of the token; the latter is by the endpoint's clock.
	AccessReceived *time.Time `json:"accessReceived,omitempty"`
	AccessExpires  *time.Time `json:"accessExpires,omitempty"`
	// The others are the journal's.
	Checksum         string      `json:"checksum,omitempty"`
	Revision         int         `json:"revision,omitempty"`
	Phase            agent.Phase `json:"phase,omitempty"`
	Attempt          int         `json:"attempt,omitempty"`
	Failures         int         `json:"failures,omitempty"`
	InstructionsDone int         `json:"instructionsDone,omitempty"`
	Ended            *time.Time  `json:"ended,omitempty"`
	Step             string      `json:"step,omitempty"`
	Message          string      `json:"message,omitempty"`
}

func statusCommand(file *string) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the agent's last run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(*file)
			if err != nil {
				return err
			}
			s, err := readStatus(c)
			if err != nil {
				return err
			}
			switch output {
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(s)
			case "text":
				return s.print(cmd.OutOrStdout())
			}
			return fmt.Errorf("unknown output %q: text or json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "text or json")
	return cmd
}

func readStatus(c *config) (status, error) {
	s := status{Version: version}
	saved, err := access.ReadSaved(c.ConnectionInfoFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err == nil {
		s.PlanSecret, s.AccessExpires = saved.Namespace+"/"+saved.SecretName, saved.ExpiresAt
		s.AccessReceived = since(saved.ReceivedAt)
	}
	j, err := agent.ReadJournal(c.Folder)
	if err != nil {
		return s, err
	}
	s.Checksum, s.Revision, s.Phase, s.Attempt, s.Failures = j.Checksum, j.Revision, j.Phase, j.Attempt, j.Failures
	s.InstructionsDone, s.Ended, s.Step, s.Message = j.InstructionsDone, since(j.Ended), j.Step, j.Message
	return s, nil
}

func since(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}

func (s status) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { _, _ = fmt.Fprintf(w, "%s:\t%v\n", name, value) }
	line("Version", s.Version)
	if s.PlanSecret == "" {
		line("Registered", "not yet")
		return w.Flush()
	}
	line("Plan Secret", s.PlanSecret)
	if s.AccessReceived != nil {
		line("Access from", s.AccessReceived.Format(time.RFC3339))
	}
	if s.Phase == "" {
		line("Plan", "none yet")
		return w.Flush()
	}
	line("Plan", fmt.Sprintf("%.12s, revision %d", s.Checksum, s.Revision))
	line("Phase", s.Phase)
	line("Attempt", fmt.Sprintf("%d, %d failed", s.Attempt, s.Failures))
	line("Instructions done", s.InstructionsDone)
	if s.Ended != nil {
		line("Ended", s.Ended.Format(time.RFC3339))
	}
	if s.Message != "" {
		line("Failed at", fmt.Sprintf("%q", s.Step))
		line("Why", fmt.Sprintf("%q", s.Message))
	}
	return w.Flush()
}
