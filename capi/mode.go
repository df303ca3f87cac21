package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Mode says who runs Cluster API's core.
type Mode string

// The modes of the manager's flag --capi.
const (
	// Auto embeds Cluster API unless somebody else installed it.
	Auto Mode = "auto"
	// Embedded runs Cluster API's core in our manager.
	Embedded Mode = "embedded"
	// External expects Cluster API to be installed and run by somebody else.
	External Mode = "external"
)

// ParseMode reads the value of --capi.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case Auto, Embedded, External:
		return mode, nil
	default:
		return "", fmt.Errorf("--capi=%s is none of auto, embedded, external", text)
	}
}

// coreCRDs are those without which Machines do not work.
var coreCRDs = []string{"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machinesets.cluster.x-k8s.io", "machinedeployments.cluster.x-k8s.io"}

// Installation is what of Cluster API is in a cluster.
type Installation struct {
	// Missing are the core CRDs that are not there.
	Missing []string
	// Foreign are the core CRDs that somebody else installed, or wrote over ours.
	Foreign []string
}

// Complete tells whether every core CRD is there.
func (i Installation) Complete() bool { return len(i.Missing) == 0 }

// Installed looks which of Cluster API's core CRDs are there, and whose they are.
func Installed(ctx context.Context, reader client.Reader) (Installation, error) {
	var found Installation
	for _, name := range coreCRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, crd)
		switch {
		case apierrors.IsNotFound(err):
			found.Missing = append(found.Missing, name)
		case err != nil:
			return Installation{}, fmt.Errorf("looking for CRD %s: %w", name, err)
		case crd.Labels[InstalledByLabel] != InstalledByValue || isTakenOver(crd):
			found.Foreign = append(found.Foreign, name)
		}
	}
	return found, nil
}

// isTakenOver reports whether somebody else wrote his CRD over one of ours. `clusterctl init` leaves our label there, but its CRDs have a
// conversion webhook and v1beta1, which ours never have (sigs.k8s.io/cluster-api, core/config/crd/patches).
func isTakenOver(crd *apiextensionsv1.CustomResourceDefinition) bool {
	if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		return true
	}
	return slices.ContainsFunc(crd.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return version.Name != clusterv1.GroupVersion.Version
	})
}

// Resolve turns Auto into what fits the cluster, and refuses what does not: two cores would fight over every object.
func Resolve(ctx context.Context, reader client.Reader, mode Mode) (Mode, error) {
	found, err := Installed(ctx, reader)
	if err != nil {
		return "", err
	}
	if mode == Auto {
		mode = Embedded
		if len(found.Foreign) > 0 {
			mode = External
		}
	}
	if mode == Embedded && len(found.Foreign) > 0 {
		return "", fmt.Errorf("another Cluster API was installed by somebody else (%s): two of it would fight over every object; "+
			"start the manager with --capi=external, or remove the other one first", strings.Join(found.Foreign, ", "))
	}
	if mode == External && !found.Complete() {
		return "", fmt.Errorf("no Cluster API is installed (%s missing): run `clusterctl init --core cluster-api`, "+
			"or start the manager with --capi=embedded", strings.Join(found.Missing, ", "))
	}
	return mode, nil
}
