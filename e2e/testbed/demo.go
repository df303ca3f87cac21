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
	// clusterExample is examples/k3s.yaml as it works here, where servers pull from the local
	// cloud's registry.
	clusterExample = "k3s.yaml"
	// clusterKubeconfig is where the demo keeps the kubeconfig of the cluster that it makes.
	clusterKubeconfig = "one.kubeconfig"
)

// writeClusterExample writes clusterExample.
func (t *Testbed) writeClusterExample(context.Context) error {
	example, err := os.ReadFile(t.example("k3s.yaml"))
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

// withRegistry has the RKEControlPlanes among the manifests pull from a registry, verified by an
// authority (PEM).
func withRegistry(manifests, registry string, authority []byte) (string, error) {
	const divider = "\n---\n"
	documents := strings.Split(manifests, divider)
	for i, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return "", fmt.Errorf("reading the example of a cluster: %w", err)
		}
		if object.GetKind() != "RKEControlPlane" {
			continue
		}
		registries := map[string]any{
			"mirrors": map[string]any{"docker.io": map[string]any{"endpoint": []any{"https://" + registry}}},
			"configs": map[string]any{registry: map[string]any{"caBundle": base64.StdEncoding.EncodeToString(authority)}},
		}
		if err := unstructured.SetNestedField(object.Object, registries, "spec", "registries"); err != nil {
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

// Demo shows a cluster of k3s, from its manifests over a change in place to its deletion, and
// removes every trace, also when a part of it fails.
func (t *Testbed) Demo(ctx context.Context) error {
	run := func(out string) bool { return len(runningPhase.FindAllString(out, -1)) == 2 }
	changed := func(out string) bool { return strings.Count(out, " 50\n") == 2 }
	ready := t.show("kubectl", "wait", "rkecontrolplane", "one", "--for=condition=Ready", "--timeout=5m")
	return t.present(ctx, []func(context.Context) error{
		t.shows("A cluster of k3s from one server and one worker",
			t.show("kubectl", "apply", "--server-side", "-f", t.in(clusterExample)),
			t.showUntil(5*time.Minute, run, "kubectl", "get", "machines.cluster.x-k8s.io"), ready),
		t.shows("kubectl talks to it", t.show("drover", "kubeconfig", "one", "--file", t.in(clusterKubeconfig)),
			t.show("kubectl", "--kubeconfig", t.in(clusterKubeconfig), "get", "nodes", "-o", "wide")),
		t.shows("An argument of all kubelets is changed on the same servers",
			t.show("kubectl", "patch", "rkecontrolplane", "one", "--type", "merge", "-p", `{"spec":{"machineGlobalConfig":{"kubelet-arg":["max-pods=50"]}}}`),
			t.showUntil(5*time.Minute, changed, "kubectl", "--kubeconfig", t.in(clusterKubeconfig),
				"get", "nodes", "-o", "custom-columns=NODE:.metadata.name,PROVIDER ID:.spec.providerID,PODS:.status.capacity.pods"), ready),
		t.shows("It says how it is", t.show("drover", "why", "cluster/one")),
		t.shows("Deleting the cluster", t.show("kubectl", "delete", "clusters.cluster.x-k8s.io", "one", "--timeout", "5m"), t.show("drover", "get")),
		t.showNothingLeft(),
	})
}
