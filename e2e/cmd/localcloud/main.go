package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/admin"
	"github.com/drover-project/drover/e2e/cloud/files"
	"github.com/drover-project/drover/e2e/cloud/nspawn"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "localcloud:", err)
		os.Exit(1)
	}
}

// shared are the flags that every command has.
type shared struct {
	stateDir string
}

func newRootCommand() *cobra.Command {
	s := &shared{}
	root := &cobra.Command{
		Use: "localcloud", Short: "A DigitalOcean-compatible cloud on this machine, for tests",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&s.stateDir, "state-dir", ".drover/cloud", "directory of the cloud's state")
	root.AddCommand(
		s.serveCommand(), group("rootfs", "The servers' root file system", rootFSCommand()),
		&cobra.Command{
			Use: "clean", Short: "Stop the cloud and remove its every trace, also after a crash", Args: cobra.NoArgs,
			RunE: func(command *cobra.Command, _ []string) error {
				ctx, cancel := context.WithTimeout(command.Context(), stopTimeout)
				defer cancel()
				return clean(ctx, s.stateDir, func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) })
			},
		},
		s.asks("ls", "List droplets and servers", 0, list),
		s.asks("ledger", "Print everything ever made", 0, ledgerOf),
		s.asks("leftovers", "Print what is left; fails when anything is", 0, leftovers),
		s.asks("power-cycle NAME", "Take the power from droplets and servers of a name, and give it back", 1,
			func(q query) error { return q.PowerCycle(q.ctx, q.args[0]) }),
		s.asks("vanish ID", "Destroy a droplet behind its owner's back", 1, func(q query) error {
			id, err := strconv.Atoi(q.args[0])
			if err != nil {
				return fmt.Errorf("%q is no number", q.args[0])
			}
			return q.Vanish(q.ctx, id)
		}),
		group("fault", "Program failures", s.faultCommand(),
			s.asks("clear ID", "Take a fault away", 1, func(q query) error { return q.ClearFaults(q.ctx, q.args[0]) }),
			s.asks("hits", "Print every fault that was applied, as JSON lines", 0, func(q query) error {
				hits, err := q.Hits(q.ctx)
				return printLines(q, hits, err)
			})),
		group("server", "Servers outside of the droplet API, for the generic driver", s.serverCommand(),
			s.asks("rm NAME", "Remove a server", 1, func(q query) error { return q.StopServer(q.ctx, q.args[0]) }),
			s.asks("ls", "Print the servers as JSON lines", 0, func(q query) error {
				servers, err := q.Servers(q.ctx)
				return printLines(q, servers, err)
			})),
		group("token", "API tokens",
			s.asks("add NAME", "Make a token and print its secret", 1, func(q query) error {
				token, err := q.AddToken(q.ctx, q.args[0], false)
				if err == nil {
					q.say("%s\n", token.Secret)
				}
				return err
			}),
			s.asks("revoke NAME", "Make the API refuse a token", 1, func(q query) error { return q.RevokeToken(q.ctx, q.args[0]) })),
		group("file", "The file server for download tests",
			s.asks("put NAME PATH", "Serve a file and print its URL and SHA-256", 2, putFile),
			s.asks("fault NAME FAULT", "Make downloads of a file go wrong: 404 or html", 2,
				func(q query) error { return q.SetFileFault(q.ctx, q.args[0], files.Fault(q.args[1])) })),
	)
	return root
}

// group is a command that only holds others; without this, one that is misspelt would print help and succeed.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(commands...)
	return command
}

// query is one question to the running cloud.
type query struct {
	*admin.Client
	ctx  context.Context
	args []string
	cmd  *cobra.Command
}

// say writes to the command's output; nobody can be told when that fails.
func (q query) say(format string, args ...any) {
	_, _ = fmt.Fprintf(q.cmd.OutOrStdout(), format, args...)
}

// asks is a command that asks the running cloud.
func (s *shared) asks(use, short string, args int, do func(q query) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(args),
		RunE: func(command *cobra.Command, args []string) error {
			client, err := admin.Dial(s.stateDir)
			if err != nil {
				return err
			}
			return do(query{client, command.Context(), args, command})
		},
	}
}

func rootFSCommand() *cobra.Command {
	opts := nspawn.ImageOptions{}
	build := &cobra.Command{
		Use: "build", Short: "Make it, unless it is there; needs root, debootstrap and, the first time, a network", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			opts.Progress = command.ErrOrStderr()
			path, err := nspawn.BuildImage(command.Context(), opts)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), path)
			return err
		},
	}
	build.Flags().StringVar(&opts.Dir, "rootfs-dir", ".drover/rootfs", "directory that caches it")
	return build
}

func (s *shared) serveCommand() *cobra.Command {
	opts := cloud.Options{}
	var tokens map[string]string
	command := &cobra.Command{
		Use: "serve", Short: "Serve the cloud until interrupted, then remove all servers", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			opts.StateDir, opts.Progress = s.stateDir, command.ErrOrStderr()
			opts.Log = slog.New(slog.NewTextHandler(command.ErrOrStderr(), nil))
			for name, secret := range tokens {
				opts.Tokens = append(opts.Tokens, account.Token{Name: name, Secret: secret})
			}
			c, err := cloud.New(opts)
			if err != nil {
				return err
			}
			if err := c.Start(command.Context()); err != nil {
				if closeErr := c.Close(); closeErr != nil {
					opts.Log.Error("closing", "error", closeErr)
				}
				return err
			}
			<-command.Context().Done()
			opts.Log.Info("stopping")
			return c.Close()
		},
	}
	set := command.Flags()
	set.StringVar(&opts.Backend, "backend", cloud.BackendNspawn, "what droplets are: nspawn (real servers) or instant (simulated)")
	set.StringVar(&opts.RootFSDir, "rootfs-dir", ".drover/rootfs", "directory that caches the servers' root file system")
	set.StringVar(&opts.Bind, "bind", "", "address to listen on (default: the bridge's with nspawn, else loopback)")
	set.StringVar(&opts.Localkube, "localkube", "", "binary that servers find as the installer image of k3s in a registry (default: no registry)")
	set.StringToStringVar(&tokens, "token", nil, "a further API token, NAME=SECRET, for all who may list processes to see; may be repeated")
	return command
}
