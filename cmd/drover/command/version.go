package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// versions is the document that `drover version -o json` prints.
type versions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
	// Manager is the version of the leading manager, "unknown" if it did not write one.
	Manager string `json:"manager,omitempty"`
	// Kubernetes is the version of the management cluster.
	Kubernetes string `json:"kubernetes,omitempty"`
}

func newVersion(e *env) *cobra.Command {
	var output string
	var clientOnly bool
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the versions of drover, the manager and Kubernetes",
		Example:           "  {name} version\n  {name} version --client -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := e.build()
			if !clientOnly {
				e.addServerVersions(cmd.Context(), &v)
			}
			if output != "" {
				return printDocument(e.Streams.Out, output, v)
			}
			return printVersions(e.Streams.Out, v)
		},
	}
	addFormatFlag(cmd, &output)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Print the version of drover only, without a request to the cluster.")
	return cmd
}

func printVersions(out io.Writer, v versions) error {
	var text strings.Builder
	fmt.Fprintf(&text, "drover %s (commit %s, %s, %s)\n", v.Version, v.Commit, v.GoVersion, v.Platform)
	if v.Manager != "" {
		fmt.Fprintf(&text, "Manager %s\n", v.Manager)
	}
	if v.Kubernetes != "" {
		fmt.Fprintf(&text, "Kubernetes %s\n", v.Kubernetes)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// addServerVersions adds the versions of Kubernetes and the manager. A version that cannot be read is
// a note, because drover's own version is still worth printing.
func (e *env) addServerVersions(ctx context.Context, v *versions) {
	ctx, cancel := context.WithTimeout(ctx, inventory.Brief)
	defer cancel()
	api, err := e.api()
	if err == nil {
		v.Kubernetes, err = kubernetesVersion(ctx, api)
	}
	if err != nil {
		e.note("the version of Kubernetes is unknown: %s", inventory.Plain(err))
		return
	}
	manager, err := api.Manager(ctx, e.Now(), 0)
	switch {
	case err != nil:
		e.note("the version of the manager is unknown: %s", inventory.Plain(err))
	case manager == nil:
		e.note("the version of the manager is unknown: you may not read its Lease")
	case manager.Seen.IsZero():
		e.note("no manager ever ran in this cluster; docs/install.md says how to install it")
	default:
		v.Manager = cmp.Or(manager.Version, "unknown")
	}
}

// kubernetesVersion asks the API server for its version.
func kubernetesVersion(ctx context.Context, api *inventory.API) (string, error) {
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

// build returns the version set by the linker, else the version that the Go toolchain wrote into
// the binary.
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
