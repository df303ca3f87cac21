package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/drover-project/drover/cmd/drover/inventory"
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
		Example:           "  {name} version\n  {name} version --client -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := e.build()
			if !clientOnly {
				var err error
				if v.Kubernetes, err = e.clusterVersion(cmd.Context()); err != nil {
					// drover's own version is still worth printing.
					e.note("the cluster's version is unknown: %s", inventory.Plain(err))
				}
			}
			if output != "" {
				return printDocument(e.Streams.Out, output, v)
			}
			_, err := fmt.Fprintf(e.Streams.Out, "drover %s (commit %s, %s, %s)\n", v.Version, v.Commit, v.GoVersion, v.Platform)
			if v.Kubernetes != "" && err == nil {
				_, err = fmt.Fprintf(e.Streams.Out, "Kubernetes %s\n", v.Kubernetes)
			}
			return err
		},
	}
	addFormatFlag(cmd, &output)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Do not ask the cluster.")
	return cmd
}

// clusterVersion asks the cluster, and not for long.
func (e *env) clusterVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, inventory.Brief)
	defer cancel()
	api, err := e.api()
	if err != nil {
		return "", err
	}
	raw, err := api.Kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("asking the API: %w", err)
	}
	var info apiversion.Info
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("decoding the API's version: %w", err)
	}
	return info.GitVersion, nil
}

// build is what the linker was told, else what the Go toolchain wrote into the binary.
func (e *env) build() versions {
	v := versions{
		APIVersion: listing.APIVersion, Kind: "Version", Version: "(devel)", Commit: "unknown",
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	v.Version = cmp.Or(e.Version, v.Version)
	if !ok {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			v.Commit = setting.Value
		}
	}
	return v
}
