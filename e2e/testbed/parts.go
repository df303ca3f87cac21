package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/e2e/cloud"
)

const (
	// Image is the image of the Deployment and the Jobs; it is imported, never pulled.
	Image = "drover.local/drover:dev"

	kubeReadyLimit = 3 * time.Minute
)

// StartKube starts Kubernetes alone, without the local cloud and Drover, and waits for its Node.
func (t *Testbed) StartKube(ctx context.Context) error {
	if err := os.MkdirAll(t.in(logsDir), 0o750); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	if err := t.writeKubectl(); err != nil {
		return err
	}
	if t.kubeReady(ctx) == nil {
		return nil
	}
	process, err := t.daemon("localkube.log", "localkube", "server", "--data-dir", t.in(kubeDir),
		"--node", "--kubeconfig", t.Kubeconfig())
	if err != nil {
		return err
	}
	return t.await(ctx, kubeReadyLimit, process, "localkube.log", t.kubeReady)
}

// kubeReady waits for a ready node, because the node becomes ready last.
func (t *Testbed) kubeReady(ctx context.Context) error {
	if _, err := os.Stat(t.Kubeconfig()); err != nil {
		return err
	}
	_, err := t.run(ctx, "kubectl", "wait", "node", "--all", "--for=condition=Ready", "--timeout=1s")
	return err
}

// ImportImage makes the image in a tarball known to the node; it is never pulled.
func (t *Testbed) ImportImage(ctx context.Context, path string) error {
	_, err := t.run(ctx, "localkube", "images", "import", path, "--data-dir", t.in(kubeDir))
	return err
}

// writeKubectl makes a kubectl out of localkube's own.
func (t *Testbed) writeKubectl() error {
	if err := os.MkdirAll(t.in(shimsDir), 0o750); err != nil {
		return fmt.Errorf("making the folder of shims: %w", err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s kubectl \"$@\"\n", quote(filepath.Join(t.BinDir, "localkube")))
	return os.WriteFile(filepath.Join(t.in(shimsDir), "kubectl"), []byte(script), 0o700) //nolint:gosec // a program must be executable
}

const (
	// cloudAddress is the local cloud's, on the bridge that its servers are plugged into; pods
	// reach it too.
	cloudAddress = "198.18.0.1"
	// agentsNodePort is where its servers reach the manager, at the same address.
	agentsNodePort = "30345"
	// ServerURL is the manager's address for its servers.
	ServerURL = "https://" + cloudAddress + ":" + agentsNodePort
	// DemoToken is the API token that the examples and stories use.
	DemoToken = "drover-demo-token"

	cloudLimit = 2 * time.Minute
)

// CloudDir is the state directory of the local cloud, for localcloud --state-dir.
func (t *Testbed) CloudDir() string { return filepath.Join(t.StateDir, "cloud") }

func (t *Testbed) rootfsDir() string { return filepath.Join(t.CacheDir, "rootfs") }

func (t *Testbed) startCloud(ctx context.Context) error {
	if t.cloudReady(ctx) == nil {
		return nil
	}
	process, err := t.daemon("localcloud.log", "localcloud", "serve", "--state-dir", t.CloudDir(),
		"--rootfs-dir", t.rootfsDir(), "--token", "demo="+DemoToken,
		"--localkube", filepath.Join(t.BinDir, "localkube"))
	if err != nil {
		return err
	}
	return t.await(ctx, cloudLimit, process, "localcloud.log", t.cloudReady)
}

func (t *Testbed) cloudReady(ctx context.Context) error {
	_, err := cloud.Ask(ctx, t.CloudDir(), "ls")
	return err
}

func (t *Testbed) endpoints() (cloud.Endpoints, error) {
	endpoints, err := cloud.ReadEndpoints(t.CloudDir())
	if err != nil {
		return endpoints, fmt.Errorf("reading where the local cloud listens: %w", err)
	}
	return endpoints, nil
}
