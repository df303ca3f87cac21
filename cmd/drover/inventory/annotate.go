package inventory

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// fieldManager owns what the CLI writes.
const fieldManager = "drover-cli"

// Annotate sets an annotation of a machine. The machine must still be the one that was read, not another of its name.
func (a *API) Annotate(ctx context.Context, m *facts.Machine, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.UID, "annotations": map[string]string{key: value},
	}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	_, err = a.Dynamic.Resource(ResourceOf(m.Kind)).Namespace(m.Namespace).
		Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("annotating %s %s/%s: %w", m.Kind.Name, m.Namespace, m.Name, err)
	}
	return nil
}
