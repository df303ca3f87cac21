package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// fieldManager owns the fields that the CLI writes.
const fieldManager = "drover-cli"

// Annotate sets an annotation of a machine. The machine must still be the one that was read, not
// another of its name.
func (a *API) Annotate(ctx context.Context, m *facts.Machine, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.UID, "annotations": map[string]string{key: value},
	}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	_, err = a.Dynamic.Resource(ResourceOf(m.Kind)).Namespace(m.Namespace).
		Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	// The object has another UID: it was deleted and created again under the same name.
	status, ok := errors.AsType[*apierrors.StatusError](err)
	isAnother := ok && slices.ContainsFunc(ptr.Deref(status.ErrStatus.Details, metav1.StatusDetails{}).Causes,
		func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("annotating %s %s/%s: it is gone", m.Kind.Name, m.Namespace, m.Name)
	case apierrors.IsConflict(err), isAnother:
		return fmt.Errorf("annotating %s %s/%s: it was deleted and made again in the meantime; look at it again first", m.Kind.Name, m.Namespace, m.Name)
	case err != nil:
		return fmt.Errorf("annotating %s %s/%s: %w", m.Kind.Name, m.Namespace, m.Name, err)
	}
	return nil
}
