package testbed

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/e2e/cloud"
)

const (
	// managerLimit is how long the manager may take to run, and drivers to be ready.
	managerLimit = 5 * time.Minute
	// testNetworks are the networks of servers and of other services here, such as the simulated
	// vCenter: they need no proxy.
	testNetworks = "198.18.0.0/15"
)

// installDrover applies the output of `manager manifests`, as a user without helm would.
func (t *Testbed) installDrover(ctx context.Context) error {
	manifests, err := t.Manifests(ctx)
	if err != nil {
		return err
	}
	_, err = t.pipe(ctx, strings.NewReader(manifests), "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// Manifests returns the output of `manager manifests` for this testbed.
func (t *Testbed) Manifests(ctx context.Context, flags ...string) (string, error) {
	endpoints, err := t.endpoints()
	if err != nil {
		return "", err
	}
	return t.run(ctx, "manager", append([]string{"manifests",
		"--machine-image", Image, "--image-pull-policy", "Never",
		"--job-https-proxy", endpoints.Proxy, "--job-ca-file", endpoints.CAFile, "--job-no-proxy", testNetworks,
		"--server-url", ServerURL, "--agents-service-type", "NodePort", "--agents-node-port", agentsNodePort,
		// All servers boot on this machine, which may have much else to do.
		"--job-ssh-timeout", "15m",
	}, flags...)...)
}

// awaits is a step that asks kubectl until it succeeds.
func (t *Testbed) awaits(command ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		return t.await(ctx, managerLimit, nil, "", func(ctx context.Context) error {
			_, err := t.run(ctx, "kubectl", command...)
			return err
		})
	}
}

// register makes the drivers known that the examples and stories use. The built-in ones exist; they
// are switched on.
func (t *Testbed) register(ctx context.Context) error {
	url, checksum, err := t.PublishPlugin(ctx, pluginBinary)
	if err != nil {
		return err
	}
	var manifests bytes.Buffer
	nodeDriver := func(name string, spec v3.NodeDriverSpec) v3.NodeDriver {
		kind := metav1.TypeMeta{APIVersion: v3.GroupVersion.String(), Kind: "NodeDriver"}
		return v3.NodeDriver{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	plugin := nodeDriver(PluginDriver, v3.NodeDriverSpec{
		URL: url, Checksum: checksum, Active: true, ProviderIDTemplate: PluginDriver + "://{DropletID}",
	})
	plugin.Annotations = map[string]string{v3.PrivateCredentialFieldsAnnotation: "token", v3.UserDataAnnotation: "flag=" + PluginDriver + "-userdata,habit=path"}
	generic := nodeDriver("generic", v3.NodeDriverSpec{URL: v3.BuiltinURLPrefix, Builtin: true, Active: true})
	for _, d := range []v3.NodeDriver{generic, plugin} {
		text, err := yaml.Marshal(d)
		if err != nil {
			return fmt.Errorf("encoding NodeDriver %s: %w", d.Name, err)
		}
		manifests.WriteString("---\n")
		manifests.Write(text)
	}
	// The admission webhook may need a moment after the manager reports ready.
	return t.await(ctx, managerLimit, nil, "", func(ctx context.Context) error {
		_, err := t.pipe(ctx, bytes.NewReader(manifests.Bytes()), "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-")
		return err
	})
}

// UpAndTell brings everything up and prints the next commands to try.
func (t *Testbed) UpAndTell(ctx context.Context) error {
	if err := t.Up(ctx); err != nil {
		return err
	}
	t.say("%s", strings.NewReplacer(
		"KUBECONFIG_PATH", quote(t.readable(t.Kubeconfig())), "BIN_PATH", quote(t.Path()),
		"EXAMPLE", quote(t.readable(t.example("digitalocean.yaml"))), "A_CLUSTER", quote(t.readable(t.in(clusterExample))), "CLOUD_DIR", quote(t.readable(t.CloudDir())),
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
  kubectl apply --server-side -f A_CLUSTER      # a cluster of k3s: one server, one worker
  drover why cluster/shop  drover kubeconfig shop --merge --switch; kubectl get nodes
  localcloud ls --state-dir CLOUD_DIR
  make down                # remove every trace
`

// PluginDriver is the name of our own docker-machine plugin, served by the local cloud's file server.
const PluginDriver = "drovertest"

const pluginBinary = "docker-machine-driver-" + PluginDriver

// PublishPlugin puts the plugin's binary on the file server under a name and returns its address
// and checksum.
func (t *Testbed) PublishPlugin(ctx context.Context, name string) (url, checksum string, err error) {
	printed, err := cloud.Ask(ctx, t.CloudDir(), "file", "put", name, filepath.Join(t.BinDir, pluginBinary))
	if err != nil {
		return "", "", fmt.Errorf("publishing the plugin: %w", err)
	}
	printed = strings.TrimSpace(printed)
	return "https://" + cloud.FilesHost + "/" + name, printed[strings.LastIndex(printed, " ")+1:], nil
}
