package command_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/testkit/golden"
)

// failedMachine is one that says everything a machine can say.
const failedMachine = `
apiVersion: rke-machine.cattle.io/v1
kind: DigitaloceanMachine
metadata:
  name: web-2
  labels: {cluster.x-k8s.io/cluster-name: store, rke.cattle.io/capi-machine-name: pool-def}
spec: {region: nyc3}
status:
  phase: Failed
  jobName: web-2-create-3
  instanceName: web-2
  attempts: 1234567
  nextAttemptTime: "2000-01-01T00:00:00Z"
  conditions:
  - {type: Ready, status: "False", reason: CreateFailed, message: "POST <droplets>: 422 \"limit\" & more\n\tsecond line", lastTransitionTime: "2026-03-01T11:00:00Z"}
`

// shown is a cluster with three machines and two drivers.
func shown(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, waitingMachine)
	c.apply(t, failedMachine)
	return c
}

// scrub takes out of a text what differs from run to run; what is put in is as long, so that tables stay as they are.
func (c *cluster) scrub(text string) string {
	text = strings.ReplaceAll(text, c.namespace, "shop-"+strings.Repeat("x", len(c.namespace)-5))
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(text, "2026-03-01T12:00:00Z")
	return regexp.MustCompile(`\b(\d|\d\d)s( *)\b`).ReplaceAllStringFunc(text, func(age string) string {
		return "AGE" + strings.Repeat(" ", max(0, len(age)-3))
	})
}

func TestOutput(t *testing.T) {
	c := shown(t)
	for name, args := range map[string][]string{
		"get":             {"get"},
		"get-wide":        {"get", "-o", "wide"},
		"get-no-headers":  {"get", "--no-headers", "web-2"},
		"get-name":        {"get", "-o", "name"},
		"get-json":        {"get", "-o", "json"},
		"get-one-yaml":    {"get", "pool-abc", "-o", "yaml"},
		"get-none-json":   {"get", "-l", "none=here", "-o", "json"},
		"get-none-yaml":   {"get", "-l", "none=here", "-o", "yaml"},
		"get-jsonpath":    {"get", "-o", `jsonpath={range .items[*]}{.name}={.attempts}{"\n"}{end}`},
		"get-go-template": {"get", "-o", `go-template={{range .items}}{{.name}} {{.phase}}{{"\n"}}{{end}}`},
		"get-template":    {"get", "--template", `{{range .items}}{{.name}} {{.attempts}}{{"\n"}}{{end}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.drover(t, args...)
			require.Zero(t, r.code, r.errOut)
			require.Empty(t, r.errOut)
			golden.Require(t, "testdata/"+name+".golden", c.scrub(r.out))
			require.Equal(t, c.scrub(r.out), c.scrub(c.ok(t, args...)), "the same again")
		})
	}
}

// TestDocumentsAreTheSame: JSON and YAML say the same, and both are valid whatever a message holds.
func TestDocumentsAreTheSame(t *testing.T) {
	c := shown(t)
	for _, args := range [][]string{{"get"}, {"get", "web-2"}, {"get", "-l", "none=here"}, {"drivers"}, {"why", "web-2"}, {"why", "db-1"}, {"version"}} {
		var fromJSON, fromYAML map[string]any
		asJSON, asYAML := c.ok(t, append(args, "-o", "json")...), c.ok(t, append(args, "-o", "yaml")...)
		require.NoError(t, json.Unmarshal([]byte(asJSON), &fromJSON), args)
		require.NoError(t, yaml.Unmarshal([]byte(asYAML), &fromYAML), args)
		if args[0] != "why" {
			require.Equal(t, fromJSON, fromYAML, args)
		}
		require.Equal(t, "cli.drover.cattle.io/v1", fromJSON["apiVersion"], args)
		require.NotEmpty(t, fromJSON["kind"], args)
		require.True(t, strings.HasSuffix(asJSON, "}\n"), args)
	}
}

// TestPartsOfAList: what is there is printed as a valid document though another name means nothing.
func TestPartsOfAList(t *testing.T) {
	c := shown(t)
	r := c.drover(t, "get", "web-9", "web-1", "nothing", "pool-abc", "genericmachine/db-1", "-o", "json")
	require.Equal(t, 1, r.code)
	var list struct {
		Items []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &list))
	require.Len(t, list.Items, 2, "each once, also when it is named twice")
	require.Equal(t, "db-1", list.Items[0].Name)
	require.Equal(t, `error: no machine is called "web-9", "nothing" in namespace "`+c.namespace+`" (see 'drover get -A')`+"\n", r.errOut)
	r = c.drover(t, "get", "-A", "a\nb")
	require.Equal(t, `error: no machine is called "a\nb"`+"\n", r.errOut)
	require.Empty(t, r.out)
	require.Equal(t, c.ok(t, "get", "web-1", "-o", "name"), c.ok(t, "get", "machines", "web-1", "-o", "name"))
	require.Equal(t, c.ok(t, "get", "web-1", "-o", "name"), c.ok(t, "get", "machine", "web-1", "-o", "name"))
}

func TestDriversOutput(t *testing.T) {
	c := newCluster(t)
	for _, manifest := range []string{
		`{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: out-1}, spec: {displayName: outcloud, url: "https://d.example/1?a=<b>&c", active: false}}`,
		`{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: out-2}, spec: {displayName: outcloud, url: "https://d.example/2", active: true, insecureSkipChecksum: true},
  status: {machineKind: OutcloudMachine, fields: 3, version: "1.2", conditions: [{type: Ready, status: "False", reason: ProbeFailed, message: "exit \"1\"", lastTransitionTime: "2026-03-01T11:00:00Z"}]}}`,
	} {
		c.apply(t, manifest)
	}
	for name, args := range map[string][]string{
		"drivers":      {"drivers", "out-1", "out-2"},
		"drivers-wide": {"get", "drivers", "out-2", "out-1", "-o", "wide"},
		"drivers-json": {"nodedrivers", "out-1", "outcloud", "OutCloud", "-o", "json"},
		"drivers-yaml": {"nd", "outcloud", "-o", "yaml"},
		"drivers-name": {"get", "nd", "out-1", "outcloud", "-o", "name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.drover(t, args...)
			require.Zero(t, r.code, r.errOut)
			golden.Require(t, "testdata/"+name+".golden", c.scrub(r.out))
		})
	}
	r := c.drover(t, "drivers", "out-1", "nonesuch", "-o", "name")
	require.Equal(t, 1, r.code)
	require.Equal(t, "nodedriver.management.cattle.io/out-1\n", r.out)
	require.Equal(t, `error: no driver is called "nonesuch"`+"\n", r.errOut)
	require.Equal(t, `no driver "nonesuch" (see 'drover get drivers')`, requireError(t, c.drover(t, "why", "driver/nonesuch")))
}

func TestWrongOutputs(t *testing.T) {
	for want, args := range map[string][]string{
		`the output "xml" is unknown; -o takes json, yaml, wide, name, jsonpath=`: {"get", "-o", "xml"},
		"error parsing jsonpath":                              {"get", "-o", "jsonpath={.items[}"},
		"error parsing template":                              {"drivers", "-o", "go-template={{.x"},
		"template format specified but no template given":     {"get", "-o", "jsonpath"},
		`the output "name" is unknown; -o takes json or yaml`: {"why", "a", "-o", "name"},
		`the selector "a=b=c" cannot be read: `:               {"get", "-l", "a=b=c"},
		"--attempt counts from 1":                             {"logs", "a", "--attempt", "-1"},
		`invalid argument "x" for "-p, --port" flag`:          {"ssh", "a", "-p", "x"},
		"a path is empty":                                     {"scp", "", "a:"},
		"a machine's name is missing before the colon":        {"scp", "x", ":y"},
	} {
		r := executeWrong(t, args...)
		require.Contains(t, r, want)
	}
}

// executeWrong runs a command line that is wrong, without any cluster, and returns the one line that says so.
func executeWrong(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	r := execute(t, emptyOptions, "", args...)
	require.Equal(t, 2, r.code, r.errOut)
	require.Empty(t, r.out)
	require.Regexp(t, `^error: [^\n]+; see 'drover [^\n]*--help'\n$`, r.errOut)
	return r.errOut
}

func TestVersionOutput(t *testing.T) {
	options := emptyOptions
	options.Version = "v1.2.3"
	r := execute(t, options, "", "version", "--client")
	require.Zero(t, r.code)
	require.Regexp(t, `^drover v1\.2\.3 \(commit \S+, go1\.\S+, \S+/\S+\)\n$`, r.out)
	var v map[string]string
	require.NoError(t, json.Unmarshal([]byte(execute(t, options, "", "version", "--client", "-o", "json").out), &v))
	require.Equal(t, "v1.2.3", v["version"])
	require.NotContains(t, v, "kubernetes")
	c := newCluster(t)
	require.NoError(t, yaml.Unmarshal([]byte(c.ok(t, "version", "-o", "yaml")), &v))
	require.Regexp(t, `^v1\.`, v["kubernetes"])
	require.Equal(t, "Version", v["kind"])
	require.Equal(t, "v1.2.3", v["manager"])
	require.Contains(t, c.ok(t, "version"), "\nManager v1.2.3\nKubernetes v1.")
}
