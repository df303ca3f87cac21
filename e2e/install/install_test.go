// Package install proves that a written release can be installed by the commands of docs/install.md.
package install

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/testbed"
)

// user runs commands in the folder root of the project, as a user does.
type user struct{ root string }

func (u user) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = u.root
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// A release is written and pushed to a registry. Helm installs its chart; after that has been
// uninstalled, kubectl applies its manifests. Both times the image comes from the registry.
func TestInstall(t *testing.T) {
	if os.Getenv("DROVER_E2E") == "" {
		t.Skip("the test needs root and containers: run `hack/test.sh install`")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	bed, err := testbed.New(testbed.Options{StateDir: filepath.Join(root, ".drover", "install"), BinDir: filepath.Join(root, "bin"), Out: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bed.Down(context.Background())) })
	require.NoError(t, bed.StartKube(t.Context()))
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)

	t.Setenv("KUBECONFIG", bed.Kubeconfig())
	t.Setenv("PATH", bed.Path()+":"+os.Getenv("PATH"))
	u := user{root}
	release := t.TempDir()
	host := strings.TrimPrefix(server.URL, "http://") + "/infra"
	u.run(t, "make", "release", "RELEASE=v9.8.7", "RELEASE_DIR="+release, "REGISTRY="+host, "ARCHES="+runtime.GOARCH, "PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH)
	pushed := u.run(t, "make", "push", "RELEASE=v9.8.7", "RELEASE_DIR="+release, "REGISTRY="+host)
	require.Contains(t, pushed, "pushed "+host+"/drover:v9.8.7@sha256:")
	u.run(t, "sh", "-c", `cd "$0" && sha256sum --check --strict SHA256SUMS`, release)

	u.run(t, "helm", "install", "drover", filepath.Join(release, "drover-9.8.7.tgz"), "--namespace", "drover-system", "--create-namespace", "--wait", "--timeout", "3m")
	u.works(t, release, host)
	u.run(t, "helm", "uninstall", "drover", "--namespace", "drover-system", "--wait", "--timeout", "3m")

	u.run(t, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(release, "drover.yaml"))
	u.run(t, "kubectl", "-n", "drover-system", "rollout", "status", "deployment/drover-manager", "--timeout=3m")
	u.works(t, release, host)
}

// works checks that the manager of the release runs and has registered the drivers.
func (u user) works(t *testing.T, release, host string) {
	t.Helper()
	image := u.run(t, "kubectl", "-n", "drover-system", "get", "deployment", "drover-manager", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	require.Equal(t, host+"/drover:v9.8.7", image)
	u.run(t, "kubectl", "wait", "--for=create", "nodedriver/digitalocean", "--timeout=1m")
	cli := filepath.Join(release, "drover-"+runtime.GOOS+"-"+runtime.GOARCH)
	var versions struct{ Version, Manager string }
	require.NoError(t, json.Unmarshal([]byte(u.run(t, cli, "version", "-o", "json")), &versions))
	require.Equal(t, versions.Version, versions.Manager)
}
