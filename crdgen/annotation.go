package crdgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// FieldsAnnotation on a driver's CRD holds its fields as a JSON list of Field, without Usage, which stands in the schema's
// descriptions. A structural schema has no place for a flag's name, and a schema says nothing about order.
const FieldsAnnotation = "drover.cattle.io/fields"

// maxFieldsAnnotation stays below the 256 KiB that all annotations of an object may have together.
const maxFieldsAnnotation = 200 << 10

// ErrNoFields says that a CRD is not one that CRDs made.
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

// FieldsFromAnnotations reads the field table from a CRD's annotations, for those who watch only metadata; Usage is empty.
// The error is ErrNoFields when there is none.
func FieldsFromAnnotations(annotations map[string]string) ([]Field, error) {
	raw, ok := annotations[FieldsAnnotation]
	if !ok {
		return nil, ErrNoFields
	}
	var fields []Field
	decoder := json.NewDecoder(strings.NewReader(raw))
	// A float cannot hold every integer.
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", FieldsAnnotation, err)
	}
	if decoder.More() {
		return nil, fmt.Errorf("reading annotation %s: more data after the list", FieldsAnnotation)
	}
	for i := range fields {
		if fields[i].Name == "" || fields[i].Flag == "" {
			return nil, fmt.Errorf("reading annotation %s: field %d has no name or no flag", FieldsAnnotation, i)
		}
		value, err := normalDefault(fields[i].Type, fields[i].Default)
		if err == nil {
			fields[i].Default = value
			fields[i].Preset, err = fields[i].normalPreset(fields[i].Preset)
		}
		if err != nil {
			return nil, fmt.Errorf("reading annotation %s: field %s: %w", FieldsAnnotation, fields[i].Name, err)
		}
	}
	return fields, nil
}

// FieldsFromCRD reads back the fields that CRDs was given, from any of the three kinds. The error is ErrNoFields when the
// CRD is not one of ours.
func FieldsFromCRD(crd *apiextensionsv1.CustomResourceDefinition) ([]Field, error) {
	fields, err := FieldsFromAnnotations(crd.Annotations)
	if err != nil {
		return nil, fmt.Errorf("reading the fields of CRD %s: %w", crd.Name, err)
	}
	var properties map[string]schemaProps
	for _, version := range crd.Spec.Versions {
		if version.Name == Version {
			validation := ptr.Deref(version.Schema, apiextensionsv1.CustomResourceValidation{})
			properties = ptr.Deref(validation.OpenAPIV3Schema, schemaProps{}).Properties
		}
	}
	// Where in its schema the kind has the driver's fields.
	switch kind := crd.Spec.Names.Kind; {
	case strings.HasSuffix(kind, "MachineTemplate"):
		properties = properties["spec"].Properties["template"].Properties["spec"].Properties
	case strings.HasSuffix(kind, "Machine"):
		properties = properties["spec"].Properties
	}
	for i := range fields {
		usage, _, ok := strings.Cut(properties[fields[i].Name].Description, descriptionBreak)
		if ok {
			fields[i].Usage = usage
		}
	}
	return fields, nil
}
