package planner

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// bound is the most that a field of a control plane's specification may have.
type bound struct {
	field string
	// bytes of the keys, texts and numbers in it, as they are stored.
	bytes int
	// elements in it: keys, texts, numbers, literals, lists and maps.
	elements int
}

// bounds are the bounds of the fields that users fill freely. Each machine of a cluster is planned
// with all of them. An element of a file takes up to 70 bytes, most of them indentation, and up to
// a hundred bytes in memory. docs/kinds/rkecontrolplane.md has the same table.
var bounds = []bound{
	{"machineGlobalConfig", 256 << 10, 8 << 10},
	{"machineSelectorConfig", 256 << 10, 8 << 10},
	{"machineSelectorFiles", 512 << 10, 16 << 10},
	{"chartValues", 256 << 10, 16 << 10},
	{"registries", 384 << 10, 8 << 10},
	{"additionalManifest", 256 << 10, 1},
	{"agentEnvVars", 64 << 10, 2 << 10},
	{"etcd", 64 << 10, 64},
	otherFields,
}

// otherFields bounds each field that has no bounds of its own, also a field that is added later.
var otherFields = bound{"", 64 << 10, 1 << 10}

const (
	// maxLevels bounds the levels of lists and maps in a value of a user's.
	maxLevels = 32
	// maxRequirements bounds the labels that all selectors require together.
	maxRequirements = 2000
	// maxArguments bounds the arguments of all layers.
	maxArguments = 2000
)

// BoundedFields are the fields that CheckSpec bounds and that no schema can bound in full.
func BoundedFields() []string {
	var names []string
	for _, b := range bounds {
		if b != otherFields {
			names = append(names, b.field)
		}
	}
	return names
}

func boundOf(field string) bound {
	for _, b := range bounds {
		if b.field == field {
			return b
		}
	}
	return otherFields
}

// checkBounds returns an error that names the first field of a specification that exceeds a bound.
// It decodes nothing. The error quotes no value: a value may be a secret.
func checkBounds(spec *rkev1.RKEControlPlaneSpec) error {
	for _, field := range fieldsOf(reflect.ValueOf(spec).Elem()) {
		if field.value.IsZero() {
			continue
		}
		b := boundOf(field.name)
		u := usage{elementsLeft: b.elements}
		if err := u.add(field.value); err != nil {
			return fmt.Errorf("spec.%s %w", field.name, err)
		}
		switch {
		case u.elementsLeft < 0:
			return fmt.Errorf("spec.%s has more than %d elements", field.name, b.elements)
		case u.bytes > b.bytes:
			return fmt.Errorf("spec.%s has %d bytes, more than %d", field.name, u.bytes, b.bytes)
		}
	}
	requirements, arguments := 0, len(spec.MachineGlobalConfig)
	count := func(s *metav1.LabelSelector) {
		if s != nil {
			requirements += len(s.MatchLabels) + len(s.MatchExpressions)
		}
	}
	for _, entry := range spec.MachineSelectorConfig {
		count(entry.MachineLabelSelector)
		arguments += len(entry.Config)
	}
	for _, entry := range spec.MachineSelectorFiles {
		count(entry.MachineLabelSelector)
	}
	switch {
	case requirements > maxRequirements:
		return fmt.Errorf("the selectors of spec.machineSelectorConfig and spec.machineSelectorFiles require %d labels, more than %d", requirements, maxRequirements)
	case arguments > maxArguments:
		return fmt.Errorf("spec.machineGlobalConfig and spec.machineSelectorConfig have %d arguments, more than %d", arguments, maxArguments)
	}
	return nil
}

// namedField is a field by its name in JSON.
type namedField struct {
	name  string
	value reflect.Value
}

// fieldsOf returns the fields of a struct, including the fields of inlined structs.
func fieldsOf(of reflect.Value) []namedField {
	var all []namedField
	for field, value := range of.Fields() {
		if field.Anonymous {
			all = append(all, fieldsOf(value)...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		all = append(all, namedField{name, value})
	}
	return all
}

// usage sums up the size of a value.
type usage struct{ bytes, elementsLeft int }

// add counts a value and everything in it, and stops at the first bound that is exceeded. Only JSON
// that is kept as bytes can have many levels.
func (u *usage) add(value reflect.Value) error {
	u.elementsLeft--
	if u.elementsLeft < 0 {
		return nil
	}
	if raw, ok := reflect.TypeAssert[apiextensionsv1.JSON](value); ok {
		u.bytes += len(raw.Raw)
		elements, err := measure(raw.Raw, u.elementsLeft, maxLevels)
		if u.elementsLeft -= elements; u.elementsLeft < 0 {
			return nil
		}
		return err
	}
	switch value.Kind() {
	case reflect.String:
		u.bytes += value.Len()
	case reflect.Pointer:
		u.elementsLeft++ // a pointer and its value count once
		return u.add(value.Elem())
	case reflect.Struct:
		return u.addAll(value.Fields())
	case reflect.Map:
		for at := value.MapRange(); at.Next(); {
			if err := cmp.Or(u.add(at.Key()), u.add(at.Value())); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			u.bytes += value.Len()
			return nil
		}
		for i := range value.Len() {
			if err := u.add(value.Index(i)); err != nil {
				return err
			}
		}
	default:
		u.bytes += 8 // a number, or true or false
	}
	return nil
}

// addAll counts the fields of a struct that have a value.
func (u *usage) addAll(fields iter.Seq2[reflect.StructField, reflect.Value]) error {
	for _, value := range fields {
		if value.IsZero() {
			continue
		}
		if err := u.add(value); err != nil {
			return err
		}
	}
	return nil
}

// Footprint estimates the peak memory of planning a cluster in bytes: a fixed part, the
// specification while it is decoded and written as a file, and the data of the Secrets and
// ConfigMaps that it names. TestFootprint compares it with the allocated bytes.
func Footprint(spec *rkev1.RKEControlPlaneSpec) int64 {
	const (
		fixed = 1 << 20
		// perByte and perElement cover the copies of a value: decoded, merged, encoded, compressed.
		perByte    = 8
		perElement = 400
	)
	u := usage{elementsLeft: math.MaxInt}
	if err := u.add(reflect.ValueOf(spec).Elem()); err != nil {
		return math.MaxInt64 // a value that is too deep is rejected, alone
	}
	total := int64(fixed + u.bytes*perByte + (math.MaxInt-u.elementsLeft)*perElement)
	if len(References(*spec)) > 0 {
		total += 2 * MaxObjectBytes
	}
	return total
}
