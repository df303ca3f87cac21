package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// values are arguments by name, each with everything that was said of it.
type values map[string][]string

// load reads a file and then the files of the folder with the same name and .d, in the order of
// their names; all of them are optional. A later value replaces an earlier one, unless the name
// ends in "+": then it is added (k3s documentation, "Configuration File").
func load(file string) (values, error) {
	more, err := filepath.Glob(filepath.Join(file+".d", "*"))
	if err != nil {
		return nil, fmt.Errorf("listing %s.d: %w", file, err)
	}
	more = slices.DeleteFunc(more, func(path string) bool { return !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) })
	all := values{}
	for _, path := range append([]string{file}, more...) {
		raw, err := os.ReadFile(path)
		if path == file && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		if err := all.merge(raw); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return all, nil
}

func (v values) merge(raw []byte) error {
	said := map[string]any{}
	if err := yaml.UnmarshalStrict(raw, &said, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		texts, err := textsOf(said[key])
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if name, adds := strings.CutSuffix(key, "+"); adds {
			v[name] = append(v[name], texts...)
		} else {
			v[name] = texts
		}
	}
	return nil
}

func textsOf(value any) ([]string, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string, bool, json.Number:
		return []string{fmt.Sprint(value)}, nil
	case []any:
		var all []string
		for _, item := range value {
			if _, nested := item.([]any); nested {
				return nil, errors.New("it is a list of lists")
			}
			texts, err := textsOf(item)
			if err != nil {
				return nil, err
			}
			all = append(all, texts...)
		}
		return all, nil
	}
	return nil, errors.New("it is neither a text, a number, a boolean nor a list of these")
}

// text is the last that was said.
func (v values) text(name string) string {
	if said := v[name]; len(said) > 0 {
		return said[len(said)-1]
	}
	return ""
}

// list returns all values, split at commas.
func (v values) list(name string) []string {
	var all []string
	for _, text := range v[name] {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}
