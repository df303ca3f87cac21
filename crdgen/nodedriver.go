package crdgen

import (
	"fmt"
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// Rules are a NodeDriver's settings for its fields beyond the driver's own flags. Field names in
// them match regardless of case and dashes.
type Rules struct {
	// PublicCredentialFields belong to the credential and may be shown.
	PublicCredentialFields []string
	// PrivateCredentialFields belong to the credential and are secret.
	PrivateCredentialFields []string
	// OptionalCredentialFields may be left out of the credential.
	OptionalCredentialFields []string
	// PasswordFields are secret without belonging to the credential.
	PasswordFields []string
	// Defaults replace the driver's own.
	Defaults []Pair
	// FileAliases are fields whose content the user gives although the driver takes a path: Value
	// is the driver's own field, with the path.
	FileAliases []Pair
}

// Pair is an item field:value of an annotation.
type Pair struct{ Field, Value string }

// RulesFromAnnotations reads the annotations of a NodeDriver.
func RulesFromAnnotations(annotations map[string]string) (rules Rules, err error) {
	rules = Rules{
		PublicCredentialFields:   splitList(annotations[v3.PublicCredentialFieldsAnnotation]),
		PrivateCredentialFields:  splitList(annotations[v3.PrivateCredentialFieldsAnnotation]),
		OptionalCredentialFields: splitList(annotations[v3.OptionalCredentialFieldsAnnotation]),
		PasswordFields:           splitList(annotations[v3.PasswordFieldsAnnotation]),
	}
	if rules.Defaults, err = splitPairs(v3.DefaultsAnnotation, annotations); err != nil {
		return Rules{}, err
	}
	if rules.FileAliases, err = splitPairs(v3.FileAliasesAnnotation, annotations); err != nil {
		return Rules{}, err
	}
	return rules, nil
}

func splitList(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func splitPairs(annotation string, annotations map[string]string) ([]Pair, error) {
	var out []Pair
	for _, item := range splitList(annotations[annotation]) {
		left, right, ok := strings.Cut(item, ":")
		left, right = strings.TrimSpace(left), strings.TrimSpace(right)
		if !ok || left == "" || right == "" {
			return nil, fmt.Errorf("reading annotation %s: %q is not of the form field:value", annotation, item)
		}
		out = append(out, Pair{left, right})
	}
	return out, nil
}
