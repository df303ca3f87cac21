package capi

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"
)

// Mode is the way in which Cluster API's core runs.
type Mode string

// The modes of the manager's flag --capi.
const (
	// Auto embeds Cluster API unless another installation exists.
	Auto Mode = "auto"
	// Embedded runs Cluster API's core in our manager.
	Embedded Mode = "embedded"
	// External uses an existing installation of Cluster API.
	External Mode = "external"
)

// ParseMode reads the value of --capi.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case Auto, Embedded, External:
		return mode, nil
	default:
		return "", fmt.Errorf("invalid value %s for --capi: must be auto, embedded or external", text)
	}
}

// coreCRDs are those without which Machines do not work.
var coreCRDs = []string{"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "machinesets.cluster.x-k8s.io", "machinedeployments.cluster.x-k8s.io"}

// Installation is the state of Cluster API in a cluster.
type Installation struct {
	// Missing are the core CRDs that are not there.
	Missing []string
	// Foreign are the core CRDs of another installation, including those that were written over
	// ours.
	Foreign []string
}

// Installed returns which of Cluster API's core CRDs exist, and their owners.
func Installed(ctx context.Context, reader client.Reader) (Installation, error) {
	var found Installation
	for _, name := range coreCRDs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, crd)
		switch {
		case apierrors.IsNotFound(err):
			found.Missing = append(found.Missing, name)
		case err != nil:
			return Installation{}, fmt.Errorf("reading CRD %s: %w", name, err)
		case crd.Labels[InstalledByLabel] != InstalledByValue || isTakenOver(crd):
			found.Foreign = append(found.Foreign, name)
		}
	}
	return found, nil
}

// isTakenOver reports whether another installation wrote its CRD over one of ours. `clusterctl
// init` leaves our label there, but its CRDs have a conversion webhook and v1beta1, which ours
// never have (sigs.k8s.io/cluster-api, core/config/crd/patches).
func isTakenOver(crd *apiextensionsv1.CustomResourceDefinition) bool {
	if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		return true
	}
	return slices.ContainsFunc(crd.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return version.Name != clusterv1.GroupVersion.Version
	})
}

// Resolve turns Auto into the mode that fits the cluster, and rejects a mode that does not: two
// cores would fight over every object.
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
		return "", fmt.Errorf("another Cluster API is installed (%s), and two installations would overwrite each other's changes: "+
			"start the manager with --capi=external, or remove the other installation first", strings.Join(found.Foreign, ", "))
	}
	if mode == External && len(found.Missing) > 0 {
		return "", fmt.Errorf("no Cluster API is installed (%s missing): run `clusterctl init --core cluster-api`, "+
			"or start the manager with --capi=embedded", strings.Join(found.Missing, ", "))
	}
	return mode, nil
}

// InstalledByLabel on one of Cluster API's CRDs records that Drover installed it, so that a later
// start still embeds.
const InstalledByLabel = "drover.cattle.io/installed-by"

// InstalledByValue is the value of InstalledByLabel.
const InstalledByValue = "drover"

// ErrNoCRDs means that the binary was built without Cluster API's CRDs.
var ErrNoCRDs = errors.New("this manager was built without Cluster API's CRDs: run `make generate` and build again, " +
	"or install Cluster API with clusterctl and start the manager with --capi=external")

// The pattern matches the page that is in git, too, so that the package compiles before the CRDs
// are generated.
//
//go:embed crds/README.md crds
var crdFiles embed.FS

// CRDs returns Cluster API's CRDs as we install them: v1beta2 only, labelled as ours and for
// clusterctl move.
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
		crd := &apiextensionsv1.CustomResourceDefinition{}
		data, err := crdFiles.ReadFile(name)
		if err == nil {
			err = yaml.UnmarshalStrict(data, crd)
		}
		if err != nil {
			return nil, fmt.Errorf("reading embedded file %s: %w", name, err)
		}
		metav1.SetMetaDataLabel(&crd.ObjectMeta, InstalledByLabel, InstalledByValue)
		metav1.SetMetaDataLabel(&crd.ObjectMeta, "cluster.x-k8s.io/provider", "cluster-api")
		metav1.SetMetaDataLabel(&crd.ObjectMeta, "clusterctl.cluster.x-k8s.io", "")
		crds = append(crds, crd)
	}
	return crds, nil
}

// handover ends a manager that embeds Cluster API as soon as another installation appears.
// `clusterctl init` writes CRDs before it creates a Deployment, so that the embedded core is gone
// when the other one starts. The next start of this manager finds the other one.
type handover struct {
	cache cache.Informers
	live  client.Reader
}

var _ manager.LeaderElectionRunnable = (*handover)(nil)

// handoverRetry is the pause before the next check after an error of the API server.
const handoverRetry = 2 * time.Second

// NeedLeaderElection implements manager.LeaderElectionRunnable: a replica that waits to lead would
// embed as soon as it does.
func (h *handover) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (h *handover) Start(ctx context.Context) error {
	crds := &metav1.PartialObjectMetadata{}
	crds.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	informer, err := h.cache.GetInformer(ctx, crds)
	if err != nil {
		return fmt.Errorf("watching CRDs: %w", err)
	}
	changed := make(chan struct{}, 1)
	look := func(obj any) {
		if crd, ok := obj.(client.Object); ok && slices.Contains(coreCRDs, crd.GetName()) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, is any) { look(is) }}); err != nil {
		return fmt.Errorf("listening for CRDs: %w", err)
	}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
		found, err := Installed(ctx, h.live)
		if err != nil {
			// A short outage of the API server does not stop the manager.
			ctrl.LoggerFrom(ctx).Error(err, "Watching for another installation of Cluster API")
			again = time.After(handoverRetry)
			continue
		}
		if len(found.Foreign) > 0 {
			return fmt.Errorf("another Cluster API is being installed (%s): the manager stops, so that two installations do not reconcile the same objects; "+
				"when it is started again with --capi=auto, it uses the other installation", strings.Join(found.Foreign, ", "))
		}
	}
}
