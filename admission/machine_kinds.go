package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
)

// MachineKindsPath is the path of the webhook MachineKinds.
const MachineKindsPath = "/validate-drover-machine-kinds"

// MachineKinds is the webhook for every driver's <X>Machine, <X>MachineTemplate and <X>Config.
type MachineKinds struct {
	// Cached reads NodeDrivers.
	Cached client.Reader
	// Live reads the metadata of credential Secrets, and NodeDrivers that the cache does not know
	// yet.
	Live client.Reader
	// Client reads Clusters and their objects for the preview of a changed Config. Optional: without
	// it, nothing is previewed.
	Client client.Client
	// TrustedCredentialNamespaces are the same as for the machines' controller.
	TrustedCredentialNamespaces []string
}

var _ admission.Handler = (*MachineKinds)(nil)

// Handle implements admission.Handler.
func (h *MachineKinds) Handle(ctx context.Context, req admission.Request) admission.Response {
	obj, old, err := decode(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return admission.Allowed("")
	}
	found, err := h.check(ctx, obj, old)
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case found.text == "":
		return admission.Allowed("").WithWarnings(bounded(h.previewConfig(ctx, obj, old))...)
	case found.waits, found.curable && ptr.Deref(req.DryRun, false):
		return admission.Allowed("").WithWarnings(found.text)
	}
	return admission.Denied(found.text)
}

// check returns the first problem of an object; old is nil for a new one.
func (h *MachineKinds) check(ctx context.Context, obj, old *unstructured.Unstructured) (found problem, err error) {
	if old == nil {
		found, err = h.checkDriver(ctx, obj.GetKind())
	}
	if name := credentialOf(obj); err == nil && found.text == "" && name != "" && (old == nil || credentialOf(old) != name) {
		found, err = h.checkCredential(ctx, obj, name)
	}
	if err == nil && found.text == "" {
		found, err = h.checkUserData(ctx, obj, old)
	}
	return found, err
}

// previewConfig returns warnings about the machines that a change of a Config replaces, in each
// Cluster that names it.
func (h *MachineKinds) previewConfig(ctx context.Context, obj, old *unstructured.Unstructured) []string {
	if h.Client == nil || old == nil || !strings.HasSuffix(obj.GetKind(), "Config") {
		return nil
	}
	changed := obj.DeepCopy()
	changed.SetGeneration(old.GetGeneration() + 1)
	clusters := &provv1.ClusterList{}
	if err := h.Client.List(ctx, clusters, client.InNamespace(obj.GetNamespace())); err != nil {
		return nil // the Cluster's conditions report the effect
	}
	var warnings []string
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if !names(cluster, obj) {
			continue
		}
		for _, warning := range preview(ctx, h.Client, cluster, changed) {
			warnings = append(warnings, "Cluster "+cluster.Name+": "+warning)
		}
	}
	return warnings
}

// names reports whether a pool of the Cluster names the Config.
func names(cluster *provv1.Cluster, config *unstructured.Unstructured) bool {
	return cluster.Spec.RKEConfig != nil && slices.ContainsFunc(cluster.Spec.RKEConfig.MachinePools, func(pool provv1.MachinePool) bool {
		return pool.MachineConfigRef.Kind == config.GetKind() && pool.MachineConfigRef.Name == config.GetName()
	})
}

// problem is a reason to reject an object.
type problem struct {
	text string
	// waits is true if the object may wait until it is fixed.
	waits bool
	// curable is true if another object can fix it. That object may be in the same
	// manifest, which a dry run does not create.
	curable bool
}

// decode returns the new object, and the old one of an update.
func decode(req admission.Request) (obj, old *unstructured.Unstructured, err error) {
	obj = &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(req.Object.Raw); err != nil {
		return nil, nil, fmt.Errorf("decoding the object: %w", err)
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(req.Namespace)
	}
	if req.Operation != admissionv1.Update {
		return obj, nil, nil
	}
	old = &unstructured.Unstructured{}
	if err := old.UnmarshalJSON(req.OldObject.Raw); err != nil {
		return nil, nil, fmt.Errorf("decoding the old object: %w", err)
	}
	return obj, old, nil
}

// checkDriver rejects a new object without a NodeDriver for its kind. It allows a machine of an
// inactive driver, so that an existing cluster can replace a server, but not new templates and
// configs.
func (h *MachineKinds) checkDriver(ctx context.Context, kind string) (problem, error) {
	found, err := nodeDriverOf(ctx, h.Cached, kind)
	if err == nil && found == nil {
		// The cache of a replica that has just started may be behind.
		found, err = nodeDriverOf(ctx, h.Live, kind)
	}
	switch {
	case err != nil:
		return problem{}, err
	case found == nil:
		return problem{text: fmt.Sprintf("no NodeDriver defines the kind %s: list them with `kubectl get nodedrivers`, and create one for this driver first", kind), curable: true}, nil
	case !found.DeletionTimestamp.IsZero():
		return problem{text: fmt.Sprintf("NodeDriver %s is being deleted, so no new %s can be created: use another driver, or create the NodeDriver again after its deletion", found.Name, kind)}, nil
	case !found.Spec.Active && kind != crdgen.KindsOf(found.DriverName()).Machine:
		return problem{text: fmt.Sprintf("NodeDriver %s is inactive: set its spec.active to true to create a new %s", found.Name, kind), curable: true}, nil
	}
	return problem{}, nil
}

func nodeDriverOf(ctx context.Context, reader client.Reader, kind string) (*v3.NodeDriver, error) {
	var all v3.NodeDriverList
	if err := reader.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing NodeDrivers: %w", err)
	}
	var found *v3.NodeDriver
	for i := range all.Items {
		nd := &all.Items[i]
		kinds := crdgen.KindsOf(nd.DriverName())
		if !slices.Contains([]string{kinds.Machine, kinds.MachineTemplate, kinds.Config}, kind) {
			continue
		}
		// Of several with one driver name, an active one that is not being deleted wins.
		if found == nil || nd.DeletionTimestamp.IsZero() && nd.Spec.Active {
			found = nd
		}
	}
	return found, nil
}

// MissingCredentialAnnotation with the value "true" lets an object name a credential that does not
// exist yet, for Secrets that are created later, for example by a secrets operator.
const MissingCredentialAnnotation = "drover.cattle.io/allow-missing-credential"

// clonedFromAnnotation is on objects that Cluster API made from a template.
const clonedFromAnnotation = "cluster.x-k8s.io/cloned-from-name"

// credentialOf reads the credential of a machine or a template, of a machine first from the
// annotation; configs have none.
func credentialOf(obj *unstructured.Unstructured) string {
	if name := obj.GetAnnotations()[rkev1.CredentialAnnotation]; name != "" && strings.HasSuffix(obj.GetKind(), "Machine") {
		return name
	}
	path := []string{"spec", "common", "cloudCredentialSecretName"}
	if strings.HasSuffix(obj.GetKind(), "MachineTemplate") {
		path = append([]string{"spec", "template"}, path...)
	}
	// The schema rejects a value of another type.
	name, _, _ := unstructured.NestedString(obj.Object, path...)
	return name
}

// comesFromElsewhere reports whether a new object was made by Cluster API, is moved or restored with
// its owners, or is paused.
func comesFromElsewhere(obj *unstructured.Unstructured) bool {
	annotations := obj.GetAnnotations()
	_, paused := annotations[clusterv1.PausedAnnotation]
	return paused || annotations[clonedFromAnnotation] != "" || len(obj.GetOwnerReferences()) > 0
}

// credentialProblem returns why objects of a namespace cannot use a credential, and what to do, with
// the error behind it; the text is empty if they can, and for an error of another kind.
func credentialProblem(ctx context.Context, source credential.Source, ref credential.Ref) (string, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := source.Look(ctx, ref, secret)
	switch {
	case errors.Is(err, credential.ErrMissing):
		return fmt.Sprintf("credential Secret %s does not exist: create it first (`kubectl -n %s create secret generic %s …`)", ref, ref.Namespace, ref.Name), err
	case errors.Is(err, credential.ErrNotShared):
		return fmt.Sprintf("credential Secret %s does not exist or is not shared with namespace %s: its owner must put %q into the Secret's annotation %s",
			ref, ref.From, ref.From, rkev1.AllowedNamespacesAnnotation), err
	}
	return "", err
}

// checkCredential rejects a credential that does not exist or is not shared with this namespace,
// unless the object may wait for it.
func (h *MachineKinds) checkCredential(ctx context.Context, obj *unstructured.Unstructured, name string) (problem, error) {
	ref := credential.Parse(obj.GetNamespace(), name)
	if ref.Namespace == "" || ref.Name == "" {
		return problem{text: fmt.Sprintf("common.cloudCredentialSecretName is %q: write the Secret's name, or namespace:name", name)}, nil
	}
	message, err := credentialProblem(ctx, credential.Source{Reader: h.Live, Trusted: h.TrustedCredentialNamespaces}, ref)
	if message == "" {
		return problem{}, err
	}
	// These objects only get a warning: those that Cluster API made, because it would retry for
	// ever; objects with owners, because a move or restore creates objects in any order; paused
	// objects; and objects whose annotation says that they can wait. They get it also for a Secret
	// that exists but is not shared: a different answer would reveal the Secrets of another
	// namespace. A template whose Secret is missing gets it too, because a template creates
	// nothing, and a restore may have dropped its owners. The controller validates again.
	restored := errors.Is(err, credential.ErrMissing) && strings.HasSuffix(obj.GetKind(), "MachineTemplate")
	if restored || obj.GetAnnotations()[MissingCredentialAnnotation] == "true" || comesFromElsewhere(obj) {
		return problem{text: message + "; the machine waits for it", waits: true}, nil
	}
	return problem{text: fmt.Sprintf("%s; or annotate this object with %s=true if the Secret is created later", message, MissingCredentialAnnotation), curable: true}, nil
}
