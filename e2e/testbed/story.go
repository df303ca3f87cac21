package testbed

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
)

// NewNamespace makes a story's namespace.
func (t *Testbed) NewNamespace(ctx context.Context, name string) error {
	_, err := t.run(ctx, "kubectl", "create", "namespace", name)
	return err
}

// DropNamespace deletes a story's namespace without waiting.
func (t *Testbed) DropNamespace(ctx context.Context, name string) {
	if _, err := t.run(ctx, "kubectl", "delete", "namespace", name, "--wait=false", "--ignore-not-found"); err != nil {
		t.say("%v\n", err)
	}
}

// KubeconfigFor writes a kubeconfig whose default namespace is the given one.
func (t *Testbed) KubeconfigFor(namespace, path string) error {
	config, err := clientcmd.LoadFromFile(t.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	return clientcmd.WriteToFile(*config, path)
}

// Path is where a story finds drover, kubectl and localcloud.
func (t *Testbed) Path() string { return t.BinDir + ":" + t.shimDir() }

// StoryEnv is what stories may refer to: the file server's address and checksum of the plugin.
func (t *Testbed) StoryEnv(ctx context.Context) ([]string, error) {
	url, checksum, err := t.PublishPlugin(ctx, pluginBinary)
	if err != nil {
		return nil, err
	}
	return []string{"PLUGIN_URL=" + url, "PLUGIN_CHECKSUM=" + checksum, "CLOUD_DIR=" + t.CloudDir(), "BIN=" + t.BinDir, "TMPDIR=" + os.TempDir()}, nil
}
