package crdgen_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/crdgen"
)

func encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}

// withoutUsage is what a CRD carries of fields; their help texts stand in its schema.
func withoutUsage(fields []crdgen.Field) []crdgen.Field {
	bare := slices.Clone(fields)
	for i := range bare {
		bare[i].Usage = ""
	}
	return bare
}

func TestFieldsFromCRD(t *testing.T) {
	for name, tt := range map[string]struct{ text, wantErr string }{
		"no JSON":        {"{", "reading annotation drover.cattle.io/fields"},
		"no list":        {`{"name":"a"}`, "reading annotation"},
		"no name":        {`[{"flag":"a-x","type":"string"}]`, "field 0 has no name or no flag"},
		"no flag":        {`[{"name":"a","flag":"a-a","type":"string"},{"name":"x","type":"string"}]`, "field 1 has no name or no flag"},
		"no type":        {`[{"name":"x","flag":"a-x"}]`, "field x"},
		"wrong default":  {`[{"name":"x","flag":"a-x","type":"int","default":"many"}]`, "field x: "},
		"broken default": {`[{"name":"x","flag":"a-x","type":"int","default":1.5}]`, "field x: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := crdgen.FieldsFromCRD(&metav1.ObjectMeta{Annotations: map[string]string{crdgen.FieldsAnnotation: tt.text}})
			require.ErrorContains(t, err, tt.wantErr)
			require.NotErrorIs(t, err, crdgen.ErrNoFields, "a damaged table is not an absent one")
		})
	}
	_, err := crdgen.FieldsFromCRD(&metav1.ObjectMeta{Annotations: map[string]string{"other": "[]"}})
	require.ErrorIs(t, err, crdgen.ErrNoFields)
	fields, err := crdgen.FieldsFromCRD(&metav1.ObjectMeta{Annotations: map[string]string{crdgen.FieldsAnnotation: `[{"name":"p","flag":"a-p","type":"int","default":22}]`}})
	require.NoError(t, err)
	require.Equal(t, []crdgen.Field{{Name: "p", Flag: "a-p", Type: crdgen.Int, Default: int64(22)}}, fields)
}

func TestFieldsFromCRDOfSomebodyElse(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "widgets.example.test"
	_, err := crdgen.FieldsFromCRD(crd)
	require.ErrorIs(t, err, crdgen.ErrNoFields)
	require.ErrorContains(t, err, "CRD widgets.example.test")

	// Ours, but somebody took the schema away: the fields are still known.
	crd.Annotations = map[string]string{crdgen.FieldsAnnotation: `[{"name":"p","flag":"a-p","type":"int"}]`}
	fields, err := crdgen.FieldsFromCRD(crd)
	require.NoError(t, err)
	require.Equal(t, []crdgen.Field{{Name: "p", Flag: "a-p", Type: crdgen.Int}}, fields)
}

func TestFieldTableMustFitAnAnnotation(t *testing.T) {
	fields := make([]crdgen.Field, 900)
	for i := range fields {
		fields[i] = crdgen.Field{Name: fmt.Sprintf("f%d", i), Flag: fmt.Sprintf("a-f%d", i), Type: crdgen.String, EnvVar: strings.Repeat("E", 256)}
	}
	_, _, _, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
	require.ErrorContains(t, err, "too many or too long flags")
}

func TestCRDsRefuseWhatCannotBecomeKinds(t *testing.T) {
	good := crdgen.Field{Name: "x", Flag: "acme-x", Type: crdgen.String}
	for name, tt := range map[string]struct {
		schema  crdgen.Schema
		message string
	}{
		"unknown type":    {crdgen.Schema{Driver: "acme", Fields: []crdgen.Field{{Name: "x", Flag: "acme-x", Type: "float"}}}, `field x has the unknown type "float"`},
		"two of one name": {crdgen.Schema{Driver: "acme", Fields: []crdgen.Field{good, good}}, `two flags have the field name "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := crdgen.CRDs(tt.schema)
			require.ErrorContains(t, err, tt.message)
		})
	}
	machine := func(driver string) []string {
		_, _, crd, err := crdgen.CRDs(crdgen.Schema{Driver: driver, Fields: []crdgen.Field{good}})
		require.NoError(t, err)
		return crd.Spec.Names.ShortNames
	}
	require.Len(t, machine("acme"), 1)
	require.Empty(t, machine("ab"), "it could collide with Kubernetes' own")
}
