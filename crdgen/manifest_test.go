package crdgen_test

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// manifestOf is a CRD as it is applied: without the status, which the API server writes.
func manifestOf(crd *apiextensionsv1.CustomResourceDefinition) (map[string]any, error) {
	raw, err := json.Marshal(crd)
	if err != nil {
		return nil, fmt.Errorf("encoding CRD %s: %w", crd.Name, err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("decoding CRD %s: %w", crd.Name, err)
	}
	delete(out, "status")
	return out, nil
}
