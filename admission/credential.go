package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/credential"
)

// MissingCredentialAnnotation with the value "true" lets an object name a credential that does not exist yet, for those who
// make the Secret later, such as a secrets operator.
const MissingCredentialAnnotation = "drover.cattle.io/allow-missing-credential"

// clonedFromAnnotation is what Cluster API puts on objects it made from a template.
const clonedFromAnnotation = "cluster.x-k8s.io/cloned-from-name"

// credentialOf reads common.cloudCredentialSecretName of a machine or a template; configs have none.
func credentialOf(obj *unstructured.Unstructured) string {
	path := []string{"spec", "common", "cloudCredentialSecretName"}
	if strings.HasSuffix(obj.GetKind(), "MachineTemplate") {
		path = append([]string{"spec", "template"}, path...)
	}
	// A value of another type is refused by the schema.
	name, _, _ := unstructured.NestedString(obj.Object, path...)
	return name
}

// checkCredential refuses a credential that is not there or not for this namespace. The warning is for objects that may
// wait for theirs.
func (h *MachineKinds) checkCredential(ctx context.Context, obj *unstructured.Unstructured, name string) (warning string, err error) {
	ref := credential.Parse(obj.GetNamespace(), name)
	if ref.Namespace == "" || ref.Name == "" {
		return "", refusal("common.cloudCredentialSecretName is %q: write the Secret's name, or namespace:name", name)
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err = credential.Source{Reader: h.Live, Trusted: h.TrustedCredentialNamespaces}.Look(ctx, ref, secret)
	message := ""
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, credential.ErrMissing):
		message = fmt.Sprintf("credential Secret %s does not exist: create it first (`kubectl -n %s create secret generic %s …`)", ref, ref.Namespace, ref.Name)
	case errors.Is(err, credential.ErrNotShared):
		message = fmt.Sprintf("credential Secret %s does not exist or is not shared with namespace %s: its owner must put %q into the Secret's annotation %s",
			ref, obj.GetNamespace(), obj.GetNamespace(), rkev1.AllowedNamespacesAnnotation)
	default:
		return "", err
	}
	// Not only when it is missing: the answer would tell what another namespace holds. The controller checks again.
	if mayWait(obj) {
		return message + "; the machine waits for it", nil
	}
	return "", refusal("%s; or annotate this object with %s=true if the Secret is made later", message, MissingCredentialAnnotation)
}

// mayWait reports whether obj was made by Cluster API, which would try for ever, comes with its owners, as what is moved or restored does
// in whatever order, is paused, or says itself that it can wait.
func mayWait(obj *unstructured.Unstructured) bool {
	annotations := obj.GetAnnotations()
	_, paused := annotations[clusterv1.PausedAnnotation]
	return paused || annotations[MissingCredentialAnnotation] == "true" || annotations[clonedFromAnnotation] != "" || len(obj.GetOwnerReferences()) > 0
}
