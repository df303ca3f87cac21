package capi

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// InstalledByLabel on one of Cluster API's CRDs tells that we installed it, so that a later start still embeds.
const InstalledByLabel = "drover.cattle.io/installed-by"

// InstalledByValue is the value of InstalledByLabel.
const InstalledByValue = "drover"

// ErrNoCRDs means that the binary was built without Cluster API's CRDs.
var ErrNoCRDs = errors.New("this manager was built without Cluster API's CRDs: run `make generate` and build again, " +
	"or install Cluster API with clusterctl and start the manager with --capi=external")

// The pattern names the page that is in git too, so that the package compiles before the CRDs are generated.
//
//go:embed crds/README.md crds
var crdFiles embed.FS

// CRDs returns Cluster API's CRDs as we install them: v1beta2 only, labelled as ours and for clusterctl move.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(crdFiles, "crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded CRDs: %w", err)
	}
	if len(names) == 0 {
		return nil, ErrNoCRDs
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		crd, err := readCRD(name)
		if err != nil {
			return nil, fmt.Errorf("reading embedded file %s: %w", name, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

func readCRD(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := crdFiles.ReadFile(name)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return nil, err
	}
	if crd.Labels == nil {
		crd.Labels = map[string]string{}
	}
	crd.Labels[InstalledByLabel] = InstalledByValue
	crd.Labels["cluster.x-k8s.io/provider"] = "cluster-api"
	crd.Labels["clusterctl.cluster.x-k8s.io"] = ""
	return crd, nil
}
