package testbed

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/e2e/cloud/admin"
)

const (
	// cloudAddress is the local cloud's, on the bridge that its servers are plugged into; pods reach it too.
	cloudAddress = "198.18.0.1"
	// DemoToken is the API token that the examples and stories use.
	DemoToken = "drover-demo-token"

	cloudLimit = 2 * time.Minute
)

// CloudDir is the state directory of the local cloud, for localcloud --state-dir.
func (t *Testbed) CloudDir() string { return filepath.Join(t.StateDir, "cloud") }

func (t *Testbed) rootfsDir() string { return filepath.Join(t.CacheDir, "rootfs") }

func (t *Testbed) backend() string {
	if t.SimulatedServers {
		return "instant"
	}
	return "nspawn"
}

func (t *Testbed) buildRootfs(ctx context.Context) error {
	if t.SimulatedServers {
		return nil
	}
	_, err := t.run(ctx, "localcloud", "rootfs", "build", "--rootfs-dir", t.rootfsDir())
	return err
}

func (t *Testbed) startCloud(ctx context.Context) error {
	if t.cloudReady(ctx) == nil {
		return nil
	}
	process, err := t.daemon("localcloud.log", "localcloud", "serve", "--state-dir", t.CloudDir(),
		"--rootfs-dir", t.rootfsDir(), "--backend", t.backend(), "--bind", cloudAddress, "--token", "demo="+DemoToken)
	if err != nil {
		return err
	}
	return t.await(ctx, cloudLimit, process, "localcloud.log", t.cloudReady)
}

func (t *Testbed) cloudReady(ctx context.Context) error {
	client, err := admin.Dial(t.CloudDir())
	if err != nil {
		return err
	}
	_, err = client.Live(ctx)
	return err
}

// Cloud talks to the local cloud.
func (t *Testbed) Cloud() (*admin.Client, error) { return admin.Dial(t.CloudDir()) }

func (t *Testbed) endpoints() (admin.Endpoints, error) {
	endpoints, err := admin.ReadEndpoints(t.CloudDir())
	if err != nil {
		return endpoints, fmt.Errorf("reading where the local cloud listens: %w", err)
	}
	return endpoints, nil
}
