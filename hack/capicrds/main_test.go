package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, path string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(raw, crd))
	return crd
}

// The real module, at the version that go.mod names.
func TestRun(t *testing.T) {
	target := filepath.Join(t.TempDir(), "crds")
	require.NoError(t, os.MkdirAll(target, 0o700))
	for _, name := range []string{"old.yaml", "kept.go"} {
		require.NoError(t, os.WriteFile(filepath.Join(target, name), nil, 0o600))
	}
	require.NoError(t, run(target))
	require.NoFileExists(t, filepath.Join(target, "old.yaml"), "capi would embed it")
	require.FileExists(t, filepath.Join(target, "kept.go"))
	files, err := filepath.Glob(filepath.Join(target, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, len(needed))
	for _, file := range files {
		crd := read(t, file)
		require.Equal(t, strings.TrimSuffix(filepath.Base(file), ".yaml"), crd.Spec.Group+"_"+crd.Spec.Names.Plural)
		require.Len(t, crd.Spec.Versions, 1)
		version := crd.Spec.Versions[0]
		require.Equal(t, "v1beta2", version.Name)
		require.True(t, version.Served)
		require.True(t, version.Storage)
		require.NotNil(t, version.Schema.OpenAPIV3Schema, "what is stored is checked")
		require.Nil(t, crd.Spec.Conversion, "no webhook answers")
		require.Empty(t, crd.Status)
	}
	before, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Regexp(t, `^# From sigs\.k8s\.io/cluster-api v1\.\d+\.\d+ by hack/capicrds; do not edit, do not commit\.\n`, string(before))
	require.NoError(t, run(target))
	again, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Equal(t, string(before), string(again))
}

func TestRun_names_what_cannot_be_written(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.EqualError(t, run(filepath.Join(file, "crds")), "making the target folder: mkdir "+file+": not a directory")
}

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1]}}
  versions:
  - {name: v1beta1, served: true, storage: true, deprecated: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: VERSION, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}, subresources: {status: {}}}
status: {storedVersions: [v1beta1]}
`

func TestConvert(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"two versions":      {strings.Replace(definition, "VERSION", "v1beta2", 1), ""},
		"only an older one": {strings.Replace(definition, "VERSION", "v1alpha4", 1), "stripping DIR/in.yaml: it has no version v1beta2"},
		"no versions":       {"spec: {group: example.com}", "stripping DIR/in.yaml: it has no version v1beta2"},
		"unknown field":     {"spec: {colour: red}", `decoding DIR/in.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "colour"`},
		"field twice":       {"kind: A\nkind: B\n", "decoding DIR/in.yaml: error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"kind\" already set in map"},
		"no YAML":           {"\t", "decoding DIR/in.yaml: error converting YAML to JSON: yaml: found character that cannot start any token"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in, out := filepath.Join(dir, "in.yaml"), filepath.Join(dir, "out.yaml")
			require.NoError(t, os.WriteFile(in, []byte(tc.content), 0o600))
			err := convert(in, out, "v1.2.3")
			if tc.want != "" {
				require.EqualError(t, err, strings.ReplaceAll(tc.want, "DIR", dir))
				require.NoFileExists(t, out)
				return
			}
			require.NoError(t, err)
			crd := read(t, out)
			require.Len(t, crd.Spec.Versions, 1)
			version := crd.Spec.Versions[0]
			require.Equal(t, "v1beta2", version.Name)
			require.True(t, version.Served && version.Storage)
			require.NotNil(t, version.Subresources.Status, "the rest stays")
			require.Nil(t, crd.Spec.Conversion)
			require.Empty(t, crd.Status.StoredVersions)
		})
	}
	require.ErrorContains(t, convert(filepath.Join(t.TempDir(), "none"), "x", ""), "reading the CRD: open ")
}
