package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

// NodeDriversPath is the path of the webhook NodeDrivers.
const NodeDriversPath = "/validate-management-cattle-io-v3-nodedriver"

// NodeDrivers is the webhook for NodeDrivers.
type NodeDrivers struct{}

var _ admission.Handler = (*NodeDrivers)(nil)

// Handle implements admission.Handler.
func (h *NodeDrivers) Handle(_ context.Context, req admission.Request) admission.Response {
	obj, old := &v3.NodeDriver{}, &v3.NodeDriver{}
	for into, raw := range map[*v3.NodeDriver][]byte{obj: req.Object.Raw, old: req.OldObject.Raw} {
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the NodeDriver: %w", err))
		}
	}
	switch req.Operation {
	case admissionv1.Delete:
		if old.Spec.Builtin {
			return admission.Denied("NodeDriver " + old.Name + " is predefined, and the manager creates it again at its next start: set its spec.active to false instead")
		}
		return admission.Allowed("")
	case admissionv1.Update:
		if !obj.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(obj.Spec, old.Spec) && equality.Semantic.DeepEqual(obj.Annotations, old.Annotations) {
			return admission.Allowed("")
		}
		if obj.Spec.Builtin != old.Spec.Builtin {
			return admission.Denied("spec.builtin cannot be changed: it states whether the driver is part of Drover")
		}
		if old.Status.MachineKind != "" && obj.DriverName() != old.DriverName() {
			return admission.Denied(fmt.Sprintf("spec.displayName cannot be changed from %q to %q, because the kind %s is named after it: create a new NodeDriver instead",
				old.DriverName(), obj.DriverName(), old.Status.MachineKind))
		}
	case admissionv1.Create, admissionv1.Connect:
	}
	warnings, err := driver.Validate(obj)
	if err != nil {
		return admission.Denied(err.Error()).WithWarnings(warnings...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}
