// Command agent is the daemon on a server: it registers at the manager's endpoint and obeys the
// server's plan. See docs/agent.md.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/drover-project/drover/agent"
	"github.com/drover-project/drover/agent/access"
	"github.com/drover-project/drover/agent/image"
	"github.com/drover-project/drover/agent/proxy"
)

// version is set by the linker.
var version = "dev"

const platform = runtime.GOOS + "/" + runtime.GOARCH

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := command(os.LookupEnv, os.Environ()).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "drover-agent:", err)
		os.Exit(1)
	}
}

// command is the root: without a subcommand it runs the agent, as system-agent's does.
func command(env func(string) (string, bool), environ []string) *cobra.Command {
	file, ok := env("CATTLE_AGENT_CONFIG")
	if !ok || file == "" {
		file = defaultConfig
		if _, err := os.Stat(installedConfig); err == nil {
			file = installedConfig
		}
	}
	verbosity := 0
	root := &cobra.Command{
		Use:           "drover-agent",
		Short:         "Apply this server's plan",
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(file)
			if err != nil {
				return err
			}
			// One line per event, and the time is left to journald, which has it anyway. The
			// libraries' log joins ours.
			options := &slog.HandlerOptions{Level: slog.Level(-verbosity), ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey && len(groups) == 0 {
					return slog.Attr{}
				}
				return a
			}}
			log := logr.FromSlogHandler(slog.NewTextHandler(cmd.ErrOrStderr(), options))
			klog.SetLogger(log)
			return run(cmd.Context(), c, environ, log)
		},
	}
	root.PersistentFlags().StringVar(&file, "config", file, "the agent's configuration, readable by its owner alone (default: $CATTLE_AGENT_CONFIG, "+installedConfig+" if it is there, or "+defaultConfig+")")
	root.Flags().IntVarP(&verbosity, "verbosity", "v", 0, "1 logs more")
	root.AddCommand(statusCommand(&file), &cobra.Command{
		Use:   "validate-config",
		Short: "Check the configuration and the connection file, and exit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(file)
			if err != nil {
				return err
			}
			if _, err := c.readAuthorities(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file, "can be used.")
			return err
		},
	})
	return root
}

func run(ctx context.Context, c *config, environ []string, log logr.Logger) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	log.Info("Starting", "version", version, "platform", platform)
	ca, err := c.readAuthorities()
	if err != nil {
		return err
	}
	environment := agent.NewEnvironment(c.EnvironmentFile, environ, log)
	proxies := proxy.New(proxy.Options{Get: environment.Get, Log: log})
	door, err := access.Open(ctx, access.Options{ConnectionFile: c.ConnectionInfoFile, KeyFile: c.KeyFile, Server: c.Server, CA: ca, TokenFile: c.TokenFile,
		Hostname: hostname, Platform: platform, Version: version, CloudServer: access.CloudServer(access.InstanceData), Proxies: proxies, Log: log})
	if err != nil {
		return err
	}
	secret, err := access.NewSecret(door)
	if err != nil {
		return err
	}
	namespace, name := door.Secret()
	log.Info("Watching", "planSecret", namespace+"/"+name)
	// The first file that exists is used: the agent's own, or the distribution's (§7.3).
	registries := []string{c.AgentRegistriesFile, "/etc/rancher/rke2/registries.yaml", "/etc/rancher/k3s/registries.yaml"}
	images := &image.Puller{Images: c.ImagesDirectory, Registries: registries, Proxies: proxies, Log: log}
	return agent.New(agent.Options{
		Folder: c.Folder, Secret: secret, Log: log, Version: version, Platform: platform, CAChecksum: door.CAChecksum,
		FailedProxy: proxies.Failed, Addresses: agent.Addresses,
		Runner: &agent.Runner{Work: c.WorkDirectory, KeepWork: c.PreserveWorkDirectory, Env: environment.Variables, Images: images, Log: log},
	}).Run(ctx)
}
