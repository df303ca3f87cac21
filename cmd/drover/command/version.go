package command

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/listing"
)

// versions is what `drover version -o json` prints.
type versions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
	Kubernetes string `json:"kubernetes,omitempty"`
}

func newVersion(e *env) *cobra.Command {
	var output string
	var clientOnly bool
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the versions of drover and of the cluster",
		Args:              arguments(cobra.NoArgs),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return usagef(cmd, "the output %q is unknown; -o takes json", output)
			}
			return e.version(output, clientOnly)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Print as json.")
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Do not ask the cluster.")
	return cmd
}

func (e *env) version(output string, clientOnly bool) error {
	v := buildVersion()
	if !clientOnly {
		v.Kubernetes = e.clusterVersion()
	}
	if output == "json" {
		return json.NewEncoder(e.Streams.Out).Encode(v)
	}
	_, err := fmt.Fprintf(e.Streams.Out, "drover %s (commit %s, %s, %s)\n", v.Version, v.Commit, v.GoVersion, v.Platform)
	if v.Kubernetes != "" && err == nil {
		_, err = fmt.Fprintf(e.Streams.Out, "Kubernetes %s\n", v.Kubernetes)
	}
	return err
}

// clusterVersion is empty when the cluster cannot be asked: drover's own version is then still worth printing.
func (e *env) clusterVersion() string {
	api, err := e.api()
	if err != nil {
		return ""
	}
	info, err := api.Kube.Discovery().ServerVersion()
	if err != nil {
		return ""
	}
	return info.GitVersion
}

// buildVersion is what the Go toolchain wrote into the binary.
func buildVersion() versions {
	v := versions{
		APIVersion: listing.APIVersion, Kind: "Version", Version: "(devel)", Commit: "unknown",
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			v.Commit = setting.Value
		}
	}
	return v
}
