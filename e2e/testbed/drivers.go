package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/e2e/cloud"
)

// PluginDriver is the name of our own docker-machine plugin, served by the local cloud's file server.
const PluginDriver = "drovertest"

const pluginBinary = "docker-machine-driver-" + PluginDriver

// PublishPlugin puts the plugin's binary on the file server under a name and returns its address and checksum.
func (t *Testbed) PublishPlugin(ctx context.Context, name string) (url, checksum string, err error) {
	content, err := os.ReadFile(filepath.Join(t.BinDir, pluginBinary))
	if err != nil {
		return "", "", fmt.Errorf("reading the plugin: %w", err)
	}
	client, err := t.Cloud()
	if err != nil {
		return "", "", err
	}
	checksum, err = client.PutFile(ctx, name, bytes.NewReader(content))
	return "https://" + cloud.FilesHost + "/" + name, checksum, err
}

// driverManifests are the NodeDrivers the examples and stories use. The built-in ones exist; they are switched on.
func (t *Testbed) driverManifests(ctx context.Context) (string, error) {
	url, checksum, err := t.PublishPlugin(ctx, pluginBinary)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	plugin := nodeDriver(PluginDriver, v3.NodeDriverSpec{
		URL: url, Checksum: checksum, Active: true, ProviderIDTemplate: PluginDriver + "://{InstanceID}",
	})
	plugin.Annotations = map[string]string{v3.PrivateCredentialFieldsAnnotation: "token", v3.UserDataAnnotation: "flag=" + PluginDriver + "-userdata,habit=path"}
	generic := nodeDriver("generic", v3.NodeDriverSpec{URL: v3.BuiltinURLPrefix, Builtin: true, Active: true})
	for _, d := range []v3.NodeDriver{generic, plugin} {
		text, err := yaml.Marshal(d)
		if err != nil {
			return "", fmt.Errorf("encoding NodeDriver %s: %w", d.Name, err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.String(), nil
}

func nodeDriver(name string, spec v3.NodeDriverSpec) v3.NodeDriver {
	return v3.NodeDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: v3.GroupVersion.String(), Kind: "NodeDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       spec,
	}
}
