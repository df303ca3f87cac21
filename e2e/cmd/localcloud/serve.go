package main

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
)

func newServeCommand(flags *shared) *cobra.Command {
	opts := cloud.Options{}
	verbose := false
	var tokens, tokenFiles map[string]string
	command := &cobra.Command{
		Use: "serve", Short: "Serve the cloud until interrupted, then remove all servers", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			opts.StateDir = flags.stateDir
			opts.Log = newLogger(command.ErrOrStderr(), verbose)
			opts.Progress = command.ErrOrStderr()
			var err error
			if opts.Tokens, err = readTokens(tokens, tokenFiles); err != nil {
				return err
			}
			return serve(command, opts)
		},
	}
	set := command.Flags()
	set.StringVar(&opts.Backend, "backend", cloud.BackendNspawn, "what droplets are: nspawn (real servers) or instant (simulated)")
	set.StringVar(&opts.RootFSDir, "rootfs-dir", ".drover/rootfs", "directory that caches the servers' root file system")
	set.StringVar(&opts.Bind, "bind", "", "address to listen on (default: the bridge's with nspawn, else loopback)")
	set.IntVar(&opts.APIPort, "api-port", 0, "port of the API; 0 takes a free one")
	set.IntVar(&opts.ProxyPort, "proxy-port", 0, "port of the proxy; 0 takes a free one")
	set.IntVar(&opts.FilesPort, "files-port", 0, "port of the file server; 0 takes a free one")
	set.IntVar(&opts.AdminPort, "admin-port", 0, "port of the admin endpoint on loopback; 0 takes a free one")
	set.DurationVar(&opts.BootDelay, "boot-delay", 0, "how long a droplet stays new before it is started")
	set.IntVar(&opts.DropletLimit, "droplet-limit", 0, "the account's quota; 0 means 10,000")
	set.IntVar(&opts.RateLimit, "rate-limit", 0, "requests per token and hour; 0 enforces none")
	set.BoolVar(&opts.Keep, "keep", false, "leave servers running at the end, for the next serve to take over")
	set.StringToStringVar(&tokens, "token", nil, "a further API token, NAME=SECRET, for all who may list processes to see; may be repeated")
	set.StringToStringVar(&tokenFiles, "token-file", nil, "a further API token, NAME=PATH of a file with its secret; may be repeated")
	set.BoolVarP(&verbose, "verbose", "v", false, "log everything")
	return command
}

func readTokens(secrets, files map[string]string) ([]account.Token, error) {
	all := maps.Clone(secrets)
	for name, path := range files {
		if _, twice := secrets[name]; twice {
			return nil, fmt.Errorf("the token %s is given twice", name)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading token %s: %w", name, err)
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = strings.TrimSpace(string(content))
	}
	var tokens []account.Token
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tokens = append(tokens, account.Token{Name: name, Secret: all[name]})
	}
	return tokens, nil
}

func newLogger(to io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
}

func serve(command *cobra.Command, opts cloud.Options) error {
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
	endpoints := c.Endpoints()
	say(command, "api    %s\nproxy  %s\nfiles  %s\nadmin  %s\nca     %s\npid    %d\n",
		endpoints.API, endpoints.Proxy, endpoints.Files, endpoints.Admin, endpoints.CAFile, endpoints.PID)
	<-command.Context().Done()
	opts.Log.Info("stopping")
	return c.Close()
}
