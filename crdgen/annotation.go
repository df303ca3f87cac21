package crdgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldsAnnotation on a driver's CRD holds its fields as a JSON list of Field, without Usage, which
// stands in the schema's descriptions. A structural schema cannot hold a flag's name or the order
// of fields.
const FieldsAnnotation = "drover.cattle.io/fields"

// maxFieldsAnnotation stays below the 256 KiB that all annotations of an object may have together.
const maxFieldsAnnotation = 200 << 10

// ErrNoFields means that CRDs did not make this CRD.
var ErrNoFields = errors.New("no annotation " + FieldsAnnotation)

func encodeFields(fields []Field) (string, error) {
	bare := make([]Field, len(fields))
	for i, field := range fields {
		field.Usage = ""
		bare[i] = field
	}
	raw, err := json.Marshal(bare)
	if err != nil {
		return "", fmt.Errorf("encoding the field table: %w", err)
	}
	if len(raw) > maxFieldsAnnotation {
		return "", fmt.Errorf("the field table has %d bytes, at most %d fit an annotation: the driver has too many or too long flags", len(raw), maxFieldsAnnotation)
	}
	return string(raw), nil
}

// FieldsFromCRD reads back the fields from which CRDs made any of the three kinds, also from the
// metadata alone; Usage is empty. It returns ErrNoFields for a foreign CRD.
func FieldsFromCRD(crd metav1.Object) ([]Field, error) {
	raw, ok := crd.GetAnnotations()[FieldsAnnotation]
	if !ok {
		return nil, fmt.Errorf("reading the fields of CRD %s: %w", crd.GetName(), ErrNoFields)
	}
	table := "annotation " + FieldsAnnotation + " of CRD " + crd.GetName()
	var fields []Field
	decoder := json.NewDecoder(strings.NewReader(raw))
	// A float cannot hold every integer.
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("reading %s: %w", table, err)
	}
	if decoder.More() {
		return nil, fmt.Errorf("reading %s: more data after the list", table)
	}
	for i := range fields {
		if fields[i].Name == "" || fields[i].Flag == "" {
			return nil, fmt.Errorf("reading %s: field %d has no name or no flag", table, i)
		}
		value, err := normalDefault(fields[i].Type, fields[i].Default)
		if err == nil {
			fields[i].Default = value
			fields[i].Preset, err = fields[i].normalPreset(fields[i].Preset)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: field %s: %w", table, fields[i].Name, err)
		}
	}
	return fields, nil
}
