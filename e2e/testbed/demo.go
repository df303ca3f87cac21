package testbed

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// clusterExample is examples/cluster.yaml as it works here, where servers pull from the local
	// cloud's registry.
	clusterExample = "cluster.yaml"
	// clusterKubeconfig is where the demo keeps the kubeconfig of the cluster that it makes.
	clusterKubeconfig = "shop.kubeconfig"
)

// writeClusterExample writes clusterExample.
func (t *Testbed) writeClusterExample(context.Context) error {
	example, err := os.ReadFile(t.example(clusterExample))
	if err != nil {
		return fmt.Errorf("reading the example of a cluster: %w", err)
	}
	endpoints, err := t.endpoints()
	if err != nil {
		return err
	}
	registry, err := url.Parse(endpoints.Registry)
	if err != nil {
		return fmt.Errorf("reading where the registry is: %w", err)
	}
	authority, err := os.ReadFile(endpoints.CAFile)
	if err != nil {
		return fmt.Errorf("reading the local cloud's authority: %w", err)
	}
	text, err := withRegistry(string(example), registry.Host, authority)
	if err != nil {
		return err
	}
	return os.WriteFile(t.in(clusterExample), []byte(text), 0o600)
}

// withRegistry sets the registry of the provisioning Clusters among the manifests, verified by an
// authority (PEM).
func withRegistry(manifests, registry string, authority []byte) (string, error) {
	const divider = "\n---\n"
	documents := strings.Split(manifests, divider)
	for i, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return "", fmt.Errorf("reading the example of a cluster: %w", err)
		}
		if object.GetAPIVersion() != "provisioning.cattle.io/v1" {
			continue
		}
		registries := map[string]any{
			"mirrors": map[string]any{"docker.io": map[string]any{"endpoint": []any{"https://" + registry}}},
			"configs": map[string]any{registry: map[string]any{"caBundle": base64.StdEncoding.EncodeToString(authority)}},
		}
		if err := unstructured.SetNestedField(object.Object, registries, "spec", "rkeConfig", "registries"); err != nil {
			return "", fmt.Errorf("naming the registry in the example of a cluster: %w", err)
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return "", fmt.Errorf("writing the example of a cluster: %w", err)
		}
		documents[i] = strings.TrimSuffix(string(text), "\n")
	}
	return strings.Join(documents, divider), nil
}

// Demo shows a cluster of k3s, from its manifest over changes in place to its deletion, and removes
// every trace, also when a part of it fails.
func (t *Testbed) Demo(ctx context.Context) error {
	changed := func(out string) bool { return strings.Count(out, " 50\n") == 2 }
	scaled := func(out string) bool { return strings.Count(out, " Ready ") == 3 }
	ready := t.show("kubectl", "wait", "clusters.provisioning.cattle.io/shop", "--for=condition=Ready", "--timeout=5m")
	nodes := func(options ...string) []string {
		return append([]string{"kubectl", "--kubeconfig", t.in(clusterKubeconfig), "get", "nodes"}, options...)
	}
	patch := func(kind, content string) func(context.Context) error {
		return t.show("kubectl", "patch", "clusters.provisioning.cattle.io", "shop", "--type", kind, "-p", content)
	}
	return t.present(ctx, []func(context.Context) error{
		t.shows("A cluster of k3s from one manifest: one server and one worker",
			t.show("kubectl", "apply", "--server-side", "-f", t.in(clusterExample)), ready,
			t.show("kubectl", "get", "clusters.provisioning.cattle.io"), t.show("kubectl", "get", "machines.cluster.x-k8s.io")),
		t.shows("kubectl talks to it", t.show("drover", "kubeconfig", "shop", "--file", t.in(clusterKubeconfig)),
			t.show(nodes("-o", "wide")...)),
		t.shows("An argument of all kubelets is changed on the same servers",
			patch("merge", `{"spec":{"rkeConfig":{"machineGlobalConfig":{"kubelet-arg":["max-pods=50"]}}}}`),
			t.showUntil(5*time.Minute, changed, nodes("-o", "custom-columns=NODE:.metadata.name,PROVIDER ID:.spec.providerID,PODS:.status.capacity.pods")...), ready),
		t.shows("The pool of workers gets another machine",
			patch("json", `[{"op":"replace","path":"/spec/rkeConfig/machinePools/1/quantity","value":2}]`),
			t.showUntil(5*time.Minute, scaled, nodes()...), ready),
		t.shows("It says how it is", t.show("drover", "why", "cluster/shop")),
		t.shows("Deleting the cluster", t.show("kubectl", "delete", "clusters.provisioning.cattle.io", "shop", "--timeout", "5m"), t.show("drover", "get")),
		t.showNothingLeft(),
	})
}
