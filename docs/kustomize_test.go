package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// reference finds the fields of the examples that hold the name of an object.
var reference = regexp.MustCompile(`(?m)^ *(?:name|clusterName|cloudCredentialSecretName|cluster\.x-k8s\.io/\w+-name|rke\.cattle\.io/object-authorized-for-clusters): (.+)$`)

// TestKustomize: with examples/kustomize/references.yaml, a prefix reaches all references of the examples.
func TestKustomize(t *testing.T) {
	files := filesys.MakeFsInMemory()
	add := func(name string, content []byte) { require.NoError(t, files.WriteFile(name, content)) }
	for _, path := range []string{"k3s.yaml", "hosts.yaml", "machinehealthcheck.yaml", "kustomize/references.yaml"} {
		content, err := os.ReadFile(filepath.Join("..", "examples", path))
		require.NoError(t, err)
		add(filepath.Base(path), content)
	}
	add("more.yaml", []byte(`
apiVersion: v1
kind: Secret
metadata: {name: app, annotations: {rke.cattle.io/object-authorized-for-clusters: one}}
---
apiVersion: v1
kind: Secret
metadata: {name: s3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: rke.cattle.io/v1
kind: RKEControlPlane
metadata: {name: further}
spec:
  clusterName: one
  etcd: {s3: {cloudCredentialName: s3}}
  machineSelectorFiles: [{fileSources: [{secret: {name: app}}, {configMap: {name: settings}}]}]
`))
	add("kustomization.yaml", []byte("namePrefix: test-\nconfigurations: [references.yaml]\nresources: [k3s.yaml, hosts.yaml, machinehealthcheck.yaml, more.yaml]\n"))
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/")
	require.NoError(t, err)
	content, err := built.AsYaml()
	require.NoError(t, err)

	found := reference.FindAllStringSubmatch(string(content), -1)
	require.Greater(t, len(found), 50)
	for _, field := range found {
		require.Regexp(t, "^test-", field[1], "the prefix is missing in %q", field[0])
	}
}
