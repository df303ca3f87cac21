package nodedriver_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/testkit"
)

// try asks the API server what it would do with an object; nothing is kept.
func try(t *testing.T, gvk schema.GroupVersionKind, namespace string, spec map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace(namespace)
	obj.SetName("tried")
	err := testkit.Client(t, runtime.NewScheme()).Create(t.Context(), obj, client.DryRunAll, client.FieldValidation("Strict"))
	return obj, err
}

func TestServer_rulesOfANodeDriver(t *testing.T) {
	const url = "https://198.18.0.1/driver"
	const wrongURL = "url must be local:// for a built-in driver, or the https:// or http:// address"
	const noChecksum = "an active external driver needs spec.checksum (sha256 or sha512 of what url serves), or spec.insecureSkipChecksum: true"
	for name, tt := range map[string]struct {
		spec    map[string]any
		wantErr string
	}{
		"built in":                   {spec: map[string]any{"url": "local://", "active": true}},
		"external":                   {spec: map[string]any{"url": url, "active": true, "checksum": strings.Repeat("a", 64)}},
		"external over http":         {spec: map[string]any{"url": "http://198.18.0.1/driver", "active": true, "checksum": strings.Repeat("A", 128)}},
		"weak checksums":             {spec: map[string]any{"url": url, "active": true, "checksum": strings.Repeat("0", 32)}},
		"sha1":                       {spec: map[string]any{"url": url, "active": true, "checksum": strings.Repeat("0", 40)}},
		"inactive without checksum":  {spec: map[string]any{"url": url}},
		"accepts anything":           {spec: map[string]any{"url": url, "active": true, "insecureSkipChecksum": true}},
		"active without checksum":    {spec: map[string]any{"url": url, "active": true}, wantErr: noChecksum},
		"active with an empty one":   {spec: map[string]any{"url": url, "active": true, "checksum": ""}, wantErr: noChecksum},
		"file":                       {spec: map[string]any{"url": "file:///etc/passwd"}, wantErr: wrongURL},
		"no scheme":                  {spec: map[string]any{"url": "198.18.0.1/driver"}, wantErr: wrongURL},
		"no URL":                     {spec: map[string]any{"active": true}, wantErr: "spec.url: Required value"},
		"empty URL":                  {spec: map[string]any{"url": ""}, wantErr: "spec.url"},
		"long URL":                   {spec: map[string]any{"url": url + strings.Repeat("x", 2048)}, wantErr: "2048"},
		"checksum of no kind":        {spec: map[string]any{"url": url, "checksum": "abcd"}, wantErr: "spec.checksum"},
		"checksum that is no hex":    {spec: map[string]any{"url": url, "checksum": strings.Repeat("g", 64)}, wantErr: "spec.checksum"},
		"checksum with its kind":     {spec: map[string]any{"url": url, "checksum": "sha256:" + strings.Repeat("a", 64)}, wantErr: "spec.checksum"},
		"long name":                  {spec: map[string]any{"url": url, "displayName": strings.Repeat("a", 58)}, wantErr: "57"},
		"longest name":               {spec: map[string]any{"url": url, "displayName": strings.Repeat("a", 57)}},
		"provider IDs":               {spec: map[string]any{"url": url, "providerIDTemplate": "acme://{Region}/{InstanceID}"}},
		"provider IDs of no kind":    {spec: map[string]any{"url": url, "providerIDTemplate": "{InstanceID}"}, wantErr: "spec.providerIDTemplate"},
		"a field that there is not":  {spec: map[string]any{"url": url, "chekcsum": "x"}, wantErr: `unknown field "spec.chekcsum"`},
		"a field of the wrong type":  {spec: map[string]any{"url": url, "active": "yes"}, wantErr: "spec.active"},
		"what Drover does not read":  {spec: map[string]any{"url": url, "uiUrl": "https://x", "externalId": "e", "whitelistDomains": []any{"a.test"}, "addCloudCredential": true}},
		"what Rancher writes itself": {spec: map[string]any{"url": "local://", "builtin": true, "active": false, "checksum": "", "description": "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			obj, err := try(t, v3.GroupVersion.WithKind("NodeDriver"), "", tt.spec)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			for _, field := range []string{"active", "insecureSkipChecksum"} {
				_, there, err := unstructured.NestedBool(obj.Object, "spec", field)
				require.NoError(t, err)
				require.True(t, there, "%s is filled in", field)
			}
		})
	}
}

func TestServer_rulesOfAnRKECluster(t *testing.T) {
	endpoint := func(host string, port any) map[string]any {
		return map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": port}}
	}
	for name, tt := range map[string]struct {
		spec    map[string]any
		wantErr string
	}{
		"nothing given":     {spec: map[string]any{}},
		"an endpoint":       {spec: endpoint("api.test", int64(6443))},
		"port too high":     {spec: endpoint("api.test", int64(65536)), wantErr: "spec.controlPlaneEndpoint.port"},
		"port in quotes":    {spec: endpoint("api.test", "6443"), wantErr: "spec.controlPlaneEndpoint.port"},
		"host is empty":     {spec: endpoint("", int64(6443)), wantErr: "spec.controlPlaneEndpoint.host"},
		"host is too long":  {spec: endpoint(strings.Repeat("a", 513), int64(6443)), wantErr: "spec.controlPlaneEndpoint.host"},
		"no such field":     {spec: map[string]any{"loadBalancer": true}, wantErr: `unknown field "spec.loadBalancer"`},
		"an empty endpoint": {spec: map[string]any{"controlPlaneEndpoint": map[string]any{}}, wantErr: "spec.controlPlaneEndpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try(t, schema.GroupVersionKind{Group: "rke.cattle.io", Version: "v1", Kind: "RKECluster"}, metav1.NamespaceDefault, tt.spec)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
		})
	}
}
