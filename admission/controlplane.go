package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/releases"
)

// ControlPlanesPath is the path of the webhook ControlPlanes.
const ControlPlanesPath = "/validate-rke-cattle-io-v1-rkecontrolplane"

// ControlPlaneSpecsPath is the path of the webhook ControlPlaneSpecs.
const ControlPlaneSpecsPath = "/validate-rke-cattle-io-v1-rkecontrolplane-spec"

// ControlPlaneSpecs is the webhook for the specification of RKEControlPlanes that users write. It
// checks bounds, values of arguments, and changes that an existing cluster cannot take, because a
// schema cannot express them. The planner checks them again.
type ControlPlaneSpecs struct{}

var _ admission.Handler = (*ControlPlaneSpecs)(nil)

// Handle implements admission.Handler.
func (h *ControlPlaneSpecs) Handle(_ context.Context, req admission.Request) admission.Response {
	obj := &rkev1.RKEControlPlane{}
	if err := json.Unmarshal(req.Object.Raw, obj); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the RKEControlPlane: %w", err))
	}
	if err := planner.CheckSpec(&obj.Spec); err != nil {
		return admission.Denied(err.Error())
	}
	if len(req.OldObject.Raw) == 0 {
		return admission.Allowed("")
	}
	before := &rkev1.RKEControlPlane{}
	if err := json.Unmarshal(req.OldObject.Raw, before); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the earlier RKEControlPlane: %w", err))
	}
	if before.IsEstablished() {
		if err := planner.CheckChange(&before.Spec, &obj.Spec); err != nil {
			return admission.Denied(err.Error())
		}
	}
	return admission.Allowed("")
}

// ControlPlaneWarningsPath is the path of the webhook ControlPlaneWarnings.
const ControlPlaneWarningsPath = "/warn-rke-cattle-io-v1-rkecontrolplane"

// Catalogue returns the catalogue of releases, or why it cannot be used.
type Catalogue = func(context.Context) (*releases.Catalogue, string, error)

// ControlPlaneWarnings is the webhook that warns of versions and arguments of an RKEControlPlane. It
// rejects nothing. The planner reports the same in conditions.
type ControlPlaneWarnings struct {
	Catalogue Catalogue
}

var _ admission.Handler = (*ControlPlaneWarnings)(nil)

// Handle implements admission.Handler.
func (h *ControlPlaneWarnings) Handle(ctx context.Context, req admission.Request) admission.Response {
	obj := &rkev1.RKEControlPlane{}
	if err := json.Unmarshal(req.Object.Raw, obj); err != nil {
		return admission.Allowed("") // ControlPlaneSpecs rejects it
	}
	catalogue, problem, err := h.Catalogue(ctx)
	if err != nil || problem != "" {
		return admission.Allowed("") // a condition reports it
	}
	running := make([]string, 0, len(obj.Status.Versions))
	for _, one := range obj.Status.Versions {
		running = append(running, one.Version)
	}
	return admission.Allowed("").WithWarnings(planner.Warnings(catalogue, &obj.Spec, running)...)
}

// deleteForMoveAnnotation is on objects that clusterctl deletes after it has moved them
// (cmd/clusterctl/api/v1alpha3).
const deleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

// ControlPlanes is the webhook for the deletion of RKEControlPlanes. The deletion removes the
// authorities and tokens that the servers of its Cluster use. Cluster API deletes a control plane
// also with another Cluster that names it.
type ControlPlanes struct {
	// Reader reads the present Clusters and Machines: kubectl deletes the control plane of a
	// manifest a moment after its Cluster.
	Reader client.Reader
}

var _ admission.Handler = (*ControlPlanes)(nil)

// Handle implements admission.Handler.
func (h *ControlPlanes) Handle(ctx context.Context, req admission.Request) admission.Response {
	obj := &rkev1.RKEControlPlane{}
	if err := json.Unmarshal(req.OldObject.Raw, obj); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the RKEControlPlane: %w", err))
	}
	if _, moved := obj.Annotations[deleteForMoveAnnotation]; moved || !obj.DeletionTimestamp.IsZero() {
		return admission.Allowed("")
	}
	refusal, err := h.neededBy(ctx, obj)
	switch {
	case err != nil && !meta.IsNoMatchError(err):
		return admission.Errored(http.StatusInternalServerError, err)
	case refusal != "":
		return admission.Denied(refusal)
	}
	return admission.Allowed("")
}

// neededBy returns why a control plane must not be deleted: a Cluster that is not being deleted has
// Machines that need it. A paused Cluster may be moving, and does not count.
func (h *ControlPlanes) neededBy(ctx context.Context, obj *rkev1.RKEControlPlane) (string, error) {
	clusters := &clusterv1.ClusterList{}
	if err := h.Reader.List(ctx, clusters, client.InNamespace(obj.Namespace)); err != nil {
		return "", fmt.Errorf("reading the Clusters: %w", err)
	}
	needs, names, going := "", false, []string{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if !obj.BelongsTo(cluster) || ptr.Deref(cluster.Spec.Paused, false) {
			continue
		}
		if !cluster.DeletionTimestamp.IsZero() {
			going = append(going, cluster.Name)
			continue
		}
		machines := &clusterv1.MachineList{}
		if err := h.Reader.List(ctx, machines, client.InNamespace(obj.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
			return "", fmt.Errorf("reading the Machines: %w", err)
		}
		if slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool { return obj.IsNeededBy(cluster, &m) }) {
			needs, names = cluster.Name, obj.IsOf(cluster)
		}
	}
	return refusal(obj, needs, names, going), nil
}

// refusal returns the reason and the remedy if a Cluster needs the control plane; otherwise it is
// empty. names is true if that Cluster names the control plane. going are the Clusters that belong
// to it and are being deleted.
func refusal(obj *rkev1.RKEControlPlane, needs string, names bool, going []string) string {
	switch {
	case needs == "":
		return ""
	case !names:
		return fmt.Sprintf("RKEControlPlane %s belongs to Cluster %s, which has Machines. Its deletion would remove the authorities and tokens that their servers use: "+
			"the Cluster does not name it now; set spec.controlPlaneRef of the Cluster to it again: kubectl edit clusters.cluster.x-k8s.io %s -n %s", obj.Name, needs, needs, obj.Namespace)
	case len(going) > 0:
		return fmt.Sprintf("RKEControlPlane %s belongs to Cluster %s, which has Machines. Before you delete %s, change or remove its spec.controlPlaneRef: kubectl edit clusters.cluster.x-k8s.io %s -n %s",
			obj.Name, needs, strings.Join(going, ", "), going[0], obj.Namespace)
	}
	return fmt.Sprintf("RKEControlPlane %s belongs to Cluster %s, which has Machines. Its deletion would remove the authorities and tokens that their servers use: delete the Cluster, "+
		"if you want to delete all of it: kubectl delete clusters.cluster.x-k8s.io %s -n %s", obj.Name, needs, needs, obj.Namespace)
}
