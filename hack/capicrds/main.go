// Command capicrds copies the CRDs of Cluster API from its Go module to capi/crds, from where capi
// embeds them. Every version but v1beta2 is left out: without Cluster API's conversion webhook,
// objects of the older ones would be stored corrupted. The files are made at build time and not
// kept in git.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	module      = "sigs.k8s.io/cluster-api"
	target      = "capi/crds"
	keepVersion = "v1beta2"
)

// needed are the CRDs that the embedded reconcilers read, or clusterctl beside them. ClusterClass
// is among them, so that the manager can reject one with a sentence.
var needed = []string{
	"addons.cluster.x-k8s.io_clusterresourcesetbindings",
	"addons.cluster.x-k8s.io_clusterresourcesets",
	"cluster.x-k8s.io_clusterclasses",
	"cluster.x-k8s.io_clusters",
	"cluster.x-k8s.io_machinedeployments",
	"cluster.x-k8s.io_machinedrainrules",
	"cluster.x-k8s.io_machinehealthchecks",
	"cluster.x-k8s.io_machinepools",
	"cluster.x-k8s.io_machines",
	"cluster.x-k8s.io_machinesets",
}

func main() {
	if err := run(target); err != nil {
		fmt.Fprintln(os.Stderr, "capicrds:", err)
		os.Exit(1)
	}
}

func run(target string) error {
	// At the version that go.mod names; it is downloaded if need be.
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	source := struct{ Dir, Version string }{}
	if err = errors.Join(err, json.Unmarshal(out, &source)); err != nil {
		return fmt.Errorf("downloading module %s: %w: %s", module, err, out)
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return fmt.Errorf("making the target folder: %w", err)
	}
	// The definitions of an earlier list go: capi embeds all there are.
	have, err := filepath.Glob(filepath.Join(target, "*.yaml"))
	for _, path := range have {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return fmt.Errorf("removing earlier CRDs: %w", err)
	}
	for _, name := range needed {
		base := filepath.Join(source.Dir, "core", "config", "crd", "bases", name+".yaml")
		if err := convert(base, filepath.Join(target, name+".yaml"), source.Version); err != nil {
			return err
		}
	}
	return nil
}

func convert(source, destination, version string) error {
	data, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("reading the CRD: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return fmt.Errorf("decoding %s: %w", source, err)
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == keepVersion })
	if at < 0 {
		return fmt.Errorf("stripping %s: it has no version %s", source, keepVersion)
	}
	crd.Spec.Versions, crd.Spec.Conversion = crd.Spec.Versions[at:at+1], nil
	crd.Spec.Versions[0].Storage, crd.Spec.Versions[0].Served = true, true
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", destination, err)
	}
	header := fmt.Sprintf("# From %s %s by hack/capicrds; do not edit, do not commit.\n", module, version)
	if err := os.WriteFile(destination, append([]byte(header), out...), 0o600); err != nil {
		return fmt.Errorf("writing the CRD: %w", err)
	}
	return nil
}
