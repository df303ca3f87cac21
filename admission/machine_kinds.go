package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// MachineKindsPath is where MachineKinds is served.
const MachineKindsPath = "/validate-drover-machine-kinds"

// MachineKinds is the webhook for every driver's <X>Machine, <X>MachineTemplate and <X>Config.
type MachineKinds struct {
	// Cached reads NodeDrivers.
	Cached client.Reader
	// Live reads the metadata of credential Secrets, and NodeDrivers that the cache does not know yet.
	Live client.Reader
	// TrustedCredentialNamespaces are as those of the machines' controller.
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
	if req.Operation == admissionv1.Create {
		if err := h.checkDriver(ctx, obj.GetKind()); err != nil {
			return answer(err)
		}
	}
	name := credentialOf(obj)
	if name == "" || old != nil && credentialOf(old) == name {
		return admission.Allowed("")
	}
	warning, err := h.checkCredential(ctx, obj, name)
	if err != nil {
		return answer(err)
	}
	if warning != "" {
		return admission.Allowed("").WithWarnings(warning)
	}
	return admission.Allowed("")
}

// decode gives the new object, and the old one of an update.
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

// refused is an error that is the user's to mend.
type refused struct{ message string }

// Error implements error.
func (r *refused) Error() string { return r.message }

func refusal(format string, args ...any) error {
	return &refused{message: fmt.Sprintf(format, args...)}
}

// answer tells what is the user's to mend from what is ours.
func answer(err error) admission.Response {
	if r, ok := errors.AsType[*refused](err); ok {
		return admission.Denied(r.message)
	}
	return admission.Errored(http.StatusInternalServerError, err)
}
