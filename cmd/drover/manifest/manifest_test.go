package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/cmd/drover/manifest"
	"github.com/drover-project/drover/testkit/golden"
)

// document is an OpenAPI document as the API server writes it.
const document = `{"components":{"schemas":{
"other":{"x-kubernetes-group-version-kind":[{"kind":"OtherConfig"}],"properties":{"x":{"type":"string"}}},
"list":{"x-kubernetes-group-version-kind":[{"kind":"XConfigList"}]},
"x":{"x-kubernetes-group-version-kind":[{"group":"rke-machine-config.cattle.io","kind":"XConfig","version":"v1"}],"properties":{
 "apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},"common":{"type":"object"},"providerID":{"type":"string"},
 "region":{"type":"string","description":"Region\n\nDefault: nyc3. Driver flag --x-region."},
 "instanceSize":{"type":"string","description":"Size\n\nDriver flag --x-size."},
 "plainToken":{"type":"string"},"sshPort":{"x-kubernetes-int-or-string":true,"description":"Port"},"backups":{"type":"boolean"},"tags":{"type":"array"},"odd":{"type":"object"},
 "accessToken":{"type":"string","format":"password","description":"Token\n\nUsually key accessToken of the credential Secret that common.cloudCredentialSecretName names; a value here wins. Driver flag --x-token."},
 "windowsPassword":{"type":"string","format":"password","description":"Password\n\nSecret. Driver flag --x-windows-password."},
 "pin":{"x-kubernetes-int-or-string":true,"description":"Pin\n\nSecret. An integer, as a number or a string."}
}}}}}`

func schema(t *testing.T) *manifest.Schema {
	t.Helper()
	s, err := manifest.ParseSchema([]byte(document), "XConfig", "x")
	require.NoError(t, err)
	return s
}

func TestObjects(t *testing.T) {
	pools, err := manifest.ParsePools([]string{"server=server", "a=all:0", "gpu=worker:3", "e=etcd+controlplane:2"})
	require.NoError(t, err)
	for name, c := range map[string]*manifest.Cluster{
		"default": {Namespace: "demo", Name: "shop", Version: "v1.36.3+k3s1", Pools: manifest.DefaultPools()},
		"pools": {Namespace: "demo", Name: "shop", Version: "v1.36.3+rke2r1", Credential: "team:do-token", Pools: pools, Set: []string{
			"region=fra1", "gpu.region=ams3", "sshPort=2222", "backups=true", "tags=a,b", "tags=c=d", "gpu.tags=", "gpu.instanceSize=007"}},
	} {
		objects, err := c.Objects(schema(t))
		require.NoError(t, err)
		var text strings.Builder
		for _, object := range objects {
			raw, err := yaml.Marshal(object.Object)
			require.NoError(t, err)
			text.WriteString("---\n" + string(raw))
		}
		golden.Require(t, "testdata/"+name+".yaml", text.String())
	}
}

// TestObjects_wrong: a mistake names the option, and never repeats a secret.
func TestObjects_wrong(t *testing.T) {
	for set, want := range map[string]string{
		"regoin=fra1":                  `driver x has no option "regoin" (did you mean "region"?); list the options with: kubectl explain xconfigs.rke-machine-config.cattle.io`,
		"Region=fra1":                  `(did you mean "region"?)`,
		"x-size=a":                     `driver x has no option "x-size" (did you mean "instanceSize"?)`,
		"--x-size=a":                   `(did you mean "instanceSize"?)`,
		"zzzzzz=a":                     `driver x has no option "zzzzzz"; list`,
		"kind=Y":                       `has no option "kind"`,
		"common=Y":                     `has no option "common"`,
		"accessToken=CANARY":           "option accessToken is secret and is not taken from a flag, which other users of this computer can read: put it into the credential Secret as key accessToken, and name the Secret with --credential",
		"worker.accessToken=CANARY":    "option accessToken is secret",
		"windowsPassword=CANARY":       "option windowsPassword is secret",
		"pin=CANARY":                   "option pin is secret",
		"plainToken=CANARY":            "option plainToken is secret",
		"CANARY":                       "an argument of --set is not OPTION=VALUE or POOL.OPTION=VALUE",
		"=CANARY":                      "is not OPTION=VALUE",
		"sshPort=many":                 `option sshPort takes a whole number, not "many"`,
		"sshPort=99999999999999999999": "takes a whole number",
		"backups=perhaps":              `option backups takes true or false, not "perhaps"`,
		"odd={}":                       "option odd cannot be set with a flag",
		"none.region=fra1":             `--set none.region: the cluster has no pool "none"`,
		".region=fra1":                 `the cluster has no pool ""`,
	} {
		c := &manifest.Cluster{Namespace: "demo", Name: "shop", Pools: manifest.DefaultPools(), Set: []string{set}}
		_, err := c.Objects(schema(t))
		require.ErrorContains(t, err, want, set)
		require.NotContains(t, err.Error(), "CANARY", set)
	}
	c := &manifest.Cluster{Pools: manifest.DefaultPools(), Set: []string{"region=a", "region=b"}}
	_, err := c.Objects(schema(t))
	require.EqualError(t, err, "option region is given twice")
}

func TestParseSchema(t *testing.T) {
	s := schema(t)
	require.Equal(t, []string{"backups", "instanceSize", "odd", "region", "sshPort", "tags"}, s.Names())
	require.True(t, s.NeedsCredential())
	other, err := manifest.ParseSchema([]byte(document), "OtherConfig", "other")
	require.NoError(t, err)
	require.False(t, other.NeedsCredential())
	_, err = manifest.ParseSchema([]byte(document), "NoneConfig", "none")
	require.ErrorIs(t, err, manifest.ErrNoSchema)
	_, err = manifest.ParseSchema([]byte("["), "XConfig", "x")
	require.ErrorContains(t, err, "reading the schema of XConfig")
}

func TestParsePools(t *testing.T) {
	pools, err := manifest.ParsePools(nil)
	require.NoError(t, err)
	require.Equal(t, manifest.DefaultPools(), pools)
	for text, want := range map[string]string{
		"worker": "a pool is NAME=ROLES:QUANTITY, such as worker=worker:3", "=worker": `the name "" has at most 63`, "Worker=worker": `the name "Worker"`,
		"a.b=worker": `the name "a.b"`, "w=": `the role "" is unknown; roles are etcd, controlplane, worker, server, all, joined with +`,
		"w=master": `the role "master" is unknown`, "w=worker:": `the quantity "" is not a number from 0 to 1000`, "w=worker:-1": "is not a number", "w=worker:1001": "is not a number",
		"w=worker:1:2": "is not a number",
	} {
		_, err := manifest.ParsePools([]string{text})
		require.ErrorContains(t, err, want, text)
	}
	_, err = manifest.ParsePools([]string{"w=worker", "w=all"})
	require.EqualError(t, err, `pool "w" is given twice`)
}
