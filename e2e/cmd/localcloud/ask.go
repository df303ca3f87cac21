package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/server"
)

func list(q query) error {
	droplets, err := q.Droplets(q.ctx)
	if err != nil {
		return err
	}
	servers, err := q.Servers(q.ctx)
	if err != nil {
		return err
	}
	rows := []string{"ID\tNAME\tSTATUS\tADDRESS\tTAGS"}
	for _, droplet := range droplets {
		address, _ := droplet.PublicIPv4()
		rows = append(rows, fmt.Sprintf("%d\t%s\t%s\t%s\t%s", droplet.ID, droplet.Name, droplet.Status, address, strings.Join(droplet.Tags, ",")))
	}
	for _, server := range servers {
		status := "off"
		if server.Running {
			status = "active"
		}
		rows = append(rows, fmt.Sprintf("-\t%s\t%s\t%s\t", server.Name, status, server.Address))
	}
	return printTable(q, rows)
}

func ledgerOf(q query) error {
	entries, err := q.Ledger(q.ctx)
	if err != nil {
		return err
	}
	rows := []string{"TIME\tWHAT\tKIND\tID\tNAME\tTOKEN\tCAUSE"}
	for _, e := range entries {
		rows = append(rows, strings.Join([]string{e.Time.Format(time.TimeOnly), string(e.Op), string(e.Kind), e.ID, e.Name, e.Token, e.Cause}, "\t"))
	}
	return printTable(q, rows)
}

func printTable(q query, rows []string) error {
	table := tabwriter.NewWriter(q.cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	if _, err := table.Write([]byte(strings.Join(rows, "\n") + "\n")); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return table.Flush()
}

// printLines prints each value as one line of JSON, unless getting them went wrong.
func printLines[T any](q query, values []T, err error) error {
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(q.cmd.OutOrStdout())
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

func leftovers(q query) error {
	left, err := q.Leftovers(q.ctx)
	if err != nil {
		return err
	}
	for _, thing := range left {
		q.say("%s\n", thing)
	}
	switch len(left) {
	case 0:
		q.say("nothing is left\n")
		return nil
	case 1:
		return errors.New("1 thing is left")
	default:
		return fmt.Errorf("%d things are left", len(left))
	}
}

func putFile(q query) error {
	content, err := os.Open(q.args[1])
	if err != nil {
		return fmt.Errorf("opening file: %w", err)
	}
	defer func() { _ = content.Close() }()
	digest, err := q.PutFile(q.ctx, q.args[0], content)
	if err == nil {
		q.say("%s/%s %s\n", q.Endpoints.Files, q.args[0], digest)
	}
	return err
}

func (s *shared) faultCommand() *cobra.Command {
	rule := fault.Rule{Match: fault.CreateDroplet}
	var delay time.Duration
	var message string
	const names = "answer-lost, quota, refused, slow-boot"
	command := s.asks("add EFFECT", "Make creations of droplets go wrong: "+names, 1, func(q query) error {
		switch q.args[0] {
		case "answer-lost":
			rule.Effect = fault.AnswerLost
		case "quota":
			rule.Effect = fault.Quota
		case "refused":
			rule.Effect = fault.Refused(message)
		case "slow-boot":
			rule.Effect = fault.Effect{Boot: &fault.Boot{Delay: delay}}
		default:
			return fmt.Errorf("there is no effect %q; there are %s", q.args[0], names)
		}
		id, err := q.AddFault(q.ctx, rule)
		if err == nil {
			q.say("%s\n", id)
		}
		return err
	})
	set := command.Flags()
	set.StringVar(&rule.Name, "name", "", "only requests for a droplet of such a name, with *")
	set.StringVar(&rule.ID, "id", "", "id of the fault (default: chosen)")
	set.IntVar(&rule.Count, "count", 0, "how often it is applied; 0 means always")
	set.DurationVar(&delay, "delay", 0, "of slow-boot")
	set.StringVar(&message, "message", "", "of refused")
	return command
}

func (s *shared) serverCommand() *cobra.Command {
	request := server.Request{}
	var keyFile string
	command := s.asks("add NAME", "Start a server and print it as JSON", 1, func(q query) error {
		request.Name = q.args[0]
		if keyFile != "" {
			content, err := os.ReadFile(keyFile)
			if err != nil {
				return fmt.Errorf("reading public key: %w", err)
			}
			request.Keys = []string{strings.TrimSpace(string(content))}
		}
		info, err := q.StartServer(q.ctx, request)
		return printLines(q, []server.Info{info}, err)
	})
	command.Flags().StringVar(&request.User, "user", "", "login with sudo beside root")
	command.Flags().StringVar(&keyFile, "key-file", "", "file of a public key that may log in")
	return command
}
