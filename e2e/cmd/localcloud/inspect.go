package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/ledger"
)

func newListCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List droplets and servers", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			droplets, err := client.Droplets(command.Context())
			if err != nil {
				return err
			}
			servers, err := client.Servers(command.Context())
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
			return printTable(command.OutOrStdout(), rows)
		},
	}
}

func printTable(to io.Writer, rows []string) error {
	table := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	if _, err := io.WriteString(table, strings.Join(rows, "\n")+"\n"); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return table.Flush()
}

func newLedgerCommand(flags *shared) *cobra.Command {
	live, output := false, ""
	command := &cobra.Command{
		Use: "ledger", Short: "Print everything ever made", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("there is no output %q: leave it out for a table, or ask for json", output)
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			if live {
				records, err := client.Live(command.Context())
				return printEither(command.OutOrStdout(), output, records, recordRows, err)
			}
			entries, err := client.Ledger(command.Context())
			return printEither(command.OutOrStdout(), output, entries, entryRows, err)
		},
	}
	command.Flags().BoolVar(&live, "live", false, "only what exists now")
	command.Flags().StringVarP(&output, "output", "o", "", "json for one line of JSON each, with all there is to know")
	return command
}

func entryRows(entries []ledger.Entry) []string {
	rows := []string{"TIME\tWHAT\tKIND\tID\tNAME\tTOKEN\tCAUSE"}
	for _, e := range entries {
		rows = append(rows, strings.Join([]string{e.Time.Format(time.TimeOnly), string(e.Op), string(e.Kind), e.ID, e.Name, e.Token, e.Cause}, "\t"))
	}
	return rows
}

func recordRows(records []ledger.Record) []string {
	rows := []string{"CREATED\tKIND\tID\tNAME\tTOKEN"}
	for _, r := range records {
		rows = append(rows, strings.Join([]string{r.Created.Format(time.TimeOnly), string(r.Kind), r.ID, r.Name, r.Token}, "\t"))
	}
	return rows
}

// printEither prints a table, or with output json a line each, unless getting the values went wrong.
func printEither[T any](to io.Writer, output string, values []T, rows func([]T) []string, err error) error {
	if err != nil || output == "json" {
		return printLines(to, values, err)
	}
	return printTable(to, rows(values))
}

// printLines prints each value as one line of JSON, unless getting them went wrong.
func printLines[T any](to io.Writer, values []T, err error) error {
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(to)
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

func newLeftoversCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "leftovers", Short: "Print what is left; fails when anything is", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			left, err := client.Leftovers(command.Context())
			if err != nil {
				return err
			}
			for _, thing := range left {
				say(command, "%s\n", thing)
			}
			switch len(left) {
			case 0:
			case 1:
				return errors.New("1 thing is left")
			default:
				return fmt.Errorf("%d things are left", len(left))
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), "nothing is left")
			return err
		},
	}
}

func newEnvCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "env", Short: "Print the variables that lead an unmodified driver here", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			tokens, err := client.Tokens(command.Context())
			if err != nil {
				return err
			}
			endpoints := client.Endpoints()
			say(command, "HTTPS_PROXY=%s\nSSL_CERT_FILE=%s\n", endpoints.Proxy, quote(endpoints.CAFile))
			for _, token := range tokens {
				if token.Name == cloud.DefaultToken {
					say(command, "DIGITALOCEAN_ACCESS_TOKEN=%s\n", token.Secret)
				}
			}
			return nil
		},
	}
}

// quote makes a shell take a path as one word.
func quote(path string) string {
	if !strings.ContainsAny(path, " \t\n'\"\\$`;&|<>()*?[]#~!{}") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func newVanishCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "vanish ID", Short: "Destroy a droplet behind its owner's back", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return withNumber(flags, args[0], func(client *admin.Client, id int) error { return client.Vanish(command.Context(), id) })
		},
	}
}

func newLimitCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "limit N", Short: "Set the account's droplet limit", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return withNumber(flags, args[0], func(client *admin.Client, limit int) error {
				return client.SetDropletLimit(command.Context(), limit)
			})
		},
	}
}

func withNumber(flags *shared, text string, do func(client *admin.Client, number int) error) error {
	number, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is no number", text)
	}
	client, err := flags.client()
	if err != nil {
		return err
	}
	return do(client, number)
}
