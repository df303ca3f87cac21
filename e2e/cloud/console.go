package cloud

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/server"
)

// maxAsked bounds a command, which may carry a server's user data.
const maxAsked = 1 << 20

// console runs the commands of clients that know the secret.
func (c *Cloud) console(secret string) http.Handler {
	want := []byte("Bearer " + secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "wrong admin secret", http.StatusUnauthorized)
			return
		}
		var request asked
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAsked)).Decode(&request); err != nil {
			http.Error(w, "parsing request: "+err.Error(), http.StatusBadRequest)
			return
		}
		var output bytes.Buffer
		command := Command(request.Dir, func(_ *cobra.Command, do func(*Cloud) error) error { return do(c) })
		command.SetOut(&output)
		command.SetArgs(request.Args)
		var answer answered
		// A command continues after its client has disconnected.
		if err := command.ExecuteContext(context.WithoutCancel(r.Context())); err != nil {
			answer.Error = err.Error()
		}
		answer.Output = output.String()
		_ = json.NewEncoder(w).Encode(answer) // the error of a disconnected client has no recipient
	})
}

// Command returns the commands of a running cloud. with finds the cloud and runs each command: in
// the cloud's own process, or by a request to it. Relative paths begin in dir.
func Command(dir string, with func(command *cobra.Command, do func(*Cloud) error) error) *cobra.Command {
	root := &cobra.Command{
		Use: "localcloud", Short: "A DigitalOcean-compatible cloud on this machine, for tests", SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().String("state-dir", ".drover/cloud", "directory of the cloud's state")
	command := func(use, short string, args int, do func(q query) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args), RunE: func(command *cobra.Command, args []string) error {
			return with(command, func(c *Cloud) error { return do(query{c, command, args, dir}) })
		}}
	}
	root.AddCommand(
		command("stop", "Have the cloud end, as an interrupt does", 0, func(q query) error { q.stop(); return nil }),
		command("ls", "List droplets and servers", 0, query.list),
		command("ledger", "Print everything ever made", 0, query.ledger),
		command("leftovers", "Print leftovers; fail if there are any", 0, query.leftovers),
		command("power-cycle NAME", "Take the power from droplets and servers of a name, and give it back", 1,
			func(q query) error { return q.PowerCycle(q.cmd.Context(), q.args[0]) }),
		command("vanish ID", "Destroy a droplet behind its owner's back", 1, func(q query) error {
			id, err := strconv.Atoi(q.args[0])
			if err != nil {
				return fmt.Errorf("%q is not a number", q.args[0])
			}
			return q.Account.DeleteDroplet(q.cmd.Context(), account.Vanished, id)
		}),
		Group("fault", "Program failures", addFault(command),
			command("clear ID", "Take a fault away", 1, func(q query) error {
				if !q.Faults.Remove(q.args[0]) {
					return fmt.Errorf("clearing fault: unknown id %q", q.args[0])
				}
				return nil
			}),
			command("hits", "Print every fault that was applied, as JSON lines", 0, func(q query) error { return printLines(q, q.Faults.Hits()) })),
		Group("server", "Servers outside of the droplet API (for the generic driver)", addServer(command),
			command("rm NAME", "Remove a server", 1, func(q query) error { return q.StopServer(q.cmd.Context(), q.args[0]) }),
			command("ls", "Print the servers as JSON lines", 0, func(q query) error { return printLines(q, q.Servers()) })),
		Group("token", "API tokens",
			command("add NAME", "Make a token and print its secret", 1, func(q query) error {
				secret, err := q.Tokens.Add(q.args[0])
				if err == nil {
					q.say("%s\n", secret)
				}
				return err
			}),
			command("revoke NAME", "Make the API refuse a token", 1, func(q query) error { return q.Tokens.Revoke(q.args[0]) })),
		Group("file", "The file server for download tests",
			command("put NAME PATH", "Serve a file and print its URL and SHA-256", 2, func(q query) error {
				content, err := q.read(q.args[1])
				if err == nil {
					q.say("%s/%s %s\n", q.Endpoints.Files, q.args[0], q.Files.Put(q.args[0], content))
				}
				return err
			}),
			command("fault NAME FAULT", "Make downloads of a file go wrong: 404 or html", 2,
				func(q query) error { return q.Files.SetFault(q.args[0], files.Fault(q.args[1])) })),
	)
	return root
}

// Group is a command that only holds others; without this, one that is misspelt would print help
// and succeed.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(commands...)
	return command
}

// query is one command as it is done.
type query struct {
	*Cloud
	cmd  *cobra.Command
	args []string
	dir  string
}

// say writes to the command's output; a write error has no recipient.
func (q query) say(format string, args ...any) {
	_, _ = fmt.Fprintf(q.cmd.OutOrStdout(), format, args...)
}

func (q query) read(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(q.dir, path)
	}
	return os.ReadFile(path)
}

func (q query) list() error {
	rows := []string{"ID\tNAME\tSTATUS\tADDRESS\tTAGS"}
	for _, droplet := range q.Account.Droplets("", "") {
		address, _ := droplet.PublicIPv4()
		rows = append(rows, fmt.Sprintf("%d\t%s\t%s\t%s\t%s", droplet.ID, droplet.Name, droplet.Status, address, strings.Join(droplet.Tags, ",")))
	}
	for _, server := range q.Servers() {
		status := "off"
		if server.Running {
			status = "active"
		}
		rows = append(rows, fmt.Sprintf("-\t%s\t%s\t%s\t", server.Name, status, server.Address))
	}
	return q.printTable(rows)
}

func (q query) ledger() error {
	rows := []string{"TIME\tWHAT\tKIND\tID\tNAME\tTOKEN\tCAUSE"}
	for _, e := range q.Ledger.Entries() {
		rows = append(rows, strings.Join([]string{e.Time.Format(time.TimeOnly), string(e.Op), string(e.Kind), e.ID, e.Name, e.Token, e.Cause}, "\t"))
	}
	return q.printTable(rows)
}

func (q query) printTable(rows []string) error {
	table := tabwriter.NewWriter(q.cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	_, _ = io.WriteString(table, strings.Join(rows, "\n")+"\n") // Flush returns its error
	return table.Flush()
}

// printLines prints each value as one line of JSON.
func printLines[T any](q query, values []T) error {
	encoder := json.NewEncoder(q.cmd.OutOrStdout())
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

func (q query) leftovers() error {
	left := q.Leftovers()
	for _, thing := range left {
		q.say("%s\n", thing)
	}
	if len(left) > 0 {
		return fmt.Errorf("things that are left: %d", len(left))
	}
	q.say("nothing is left\n")
	return nil
}

// commandFor makes one of Command's commands.
type commandFor func(use, short string, args int, do func(q query) error) *cobra.Command

func addFault(command commandFor) *cobra.Command {
	rule := fault.Rule{Match: fault.CreateDroplet}
	var delay time.Duration
	var message string
	const names = "answer-lost, quota, refused, repeated, slow-boot"
	add := command("add EFFECT", "Make creations of droplets go wrong: "+names, 1, func(q query) error {
		switch q.args[0] {
		case "answer-lost":
			rule.Effect = fault.AnswerLost
		case "quota":
			rule.Effect = fault.Quota
		case "refused":
			rule.Effect = fault.Refused(message)
		case "repeated":
			rule.Effect = fault.Repeated
		case "slow-boot":
			if delay <= 0 {
				return errors.New("slow-boot needs a --delay of more than 0")
			}
			rule.Effect = fault.Effect{Boot: &fault.Boot{Delay: delay}}
		default:
			return fmt.Errorf("unknown effect %q; the effects are %s", q.args[0], names)
		}
		id, err := q.Faults.Add(rule)
		if err == nil {
			q.say("%s\n", id)
		}
		return err
	})
	set := add.Flags()
	set.StringVar(&rule.Name, "name", "", "only requests for a droplet of such a name, with *")
	set.StringVar(&rule.ID, "id", "", "id of the fault (default: chosen)")
	set.IntVar(&rule.Count, "count", 0, "how often it is applied; 0 means always")
	set.DurationVar(&delay, "delay", 0, "of slow-boot")
	set.StringVar(&message, "message", "", "of refused")
	return add
}

func addServer(command commandFor) *cobra.Command {
	request := server.Request{}
	var keyFile string
	add := command("add NAME", "Start a server and print it as JSON", 1, func(q query) error {
		request.Name = q.args[0]
		if keyFile != "" {
			content, err := q.read(keyFile)
			if err != nil {
				return fmt.Errorf("reading public key: %w", err)
			}
			request.Keys = []string{strings.TrimSpace(string(content))}
		}
		info, err := q.StartServer(q.cmd.Context(), request)
		if err != nil {
			return err
		}
		return printLines(q, []server.Info{info})
	})
	add.Flags().StringVar(&request.User, "user", "", "login with sudo beside root")
	add.Flags().StringVar(&keyFile, "key-file", "", "file of a public key that may log in")
	add.Flags().StringVar(&request.UserData, "user-data", "", "what cloud-init is given")
	return add
}
