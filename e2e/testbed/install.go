package testbed

import (
	"context"
	"strings"
	"time"
)

const (
	managerLimit = 5 * time.Minute
	driversLimit = 5 * time.Minute
	// testNetworks are those of servers and of what else listens here, such as the simulated vCenter: they need no proxy.
	testNetworks = "198.18.0.0/15"
)

// installDrover applies what `manager manifests` prints, as a user without helm would.
func (t *Testbed) installDrover(ctx context.Context) error {
	manifests, err := t.Manifests(ctx)
	if err != nil {
		return err
	}
	_, err = t.pipe(ctx, strings.NewReader(manifests), "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// Manifests are what `manager manifests` prints for this testbed.
func (t *Testbed) Manifests(ctx context.Context, flags ...string) (string, error) {
	endpoints, err := t.endpoints()
	if err != nil {
		return "", err
	}
	return t.run(ctx, "manager", append([]string{"manifests",
		"--machine-image", Image, "--image-pull-policy", "Never",
		"--job-https-proxy", endpoints.Proxy, "--job-ca-file", endpoints.CAFile, "--job-no-proxy", testNetworks,
		// All servers boot on this machine, which may have much else to do.
		"--job-ssh-timeout", "15m",
	}, flags...)...)
}

func (t *Testbed) awaitManager(ctx context.Context) error {
	return t.await(ctx, managerLimit, nil, "", func(ctx context.Context) error {
		_, err := t.run(ctx, "kubectl", "-n", "drover-system", "rollout", "status", "deployment/drover-manager", "--timeout=5s")
		return err
	})
}

// register makes the drivers known that the examples and stories use.
func (t *Testbed) register(ctx context.Context) error {
	manifests, err := t.driverManifests(ctx)
	if err != nil {
		return err
	}
	// The admission webhook may need a moment after the manager reports ready.
	return t.await(ctx, managerLimit, nil, "", func(ctx context.Context) error {
		_, err := t.pipe(ctx, strings.NewReader(manifests), "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-")
		return err
	})
}

func (t *Testbed) awaitDrivers(ctx context.Context) error {
	return t.await(ctx, driversLimit, nil, "", func(ctx context.Context) error {
		_, err := t.run(ctx, "kubectl", "wait", "nodedriver", "digitalocean", "generic", "drovertest",
			"--for=condition=Ready", "--timeout=5s")
		return err
	})
}

// UpAndTell brings everything up and tells what to try next.
func (t *Testbed) UpAndTell(ctx context.Context) error {
	if err := t.Up(ctx); err != nil {
		return err
	}
	t.say("%s", strings.NewReplacer(
		"KUBECONFIG_PATH", quote(t.readable(t.Kubeconfig())), "BIN_PATH", quote(t.Path()),
		"EXAMPLE", quote(t.readable(t.example())), "CLOUD_DIR", quote(t.readable(t.CloudDir())),
	).Replace(whatNext))
	return nil
}

const whatNext = `
Everything runs. To try next:
  export KUBECONFIG=KUBECONFIG_PATH PATH=BIN_PATH:$PATH
  kubectl get nodedrivers
  kubectl apply --server-side -f EXAMPLE
  drover get -w
  drover why NAME          drover ssh NAME          drover logs NAME
  kubectl scale machinedeployment hello --replicas 3
  localcloud ls --state-dir CLOUD_DIR
  make down                # remove every trace
`
