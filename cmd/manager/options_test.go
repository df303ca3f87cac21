package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/testkit/golden"
)

// environment is a lookupEnv of fixed variables.
func environment(pairs ...string) lookupEnv {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// parsed are the options of a command line of the manager.
func parsed(t *testing.T, env lookupEnv, args ...string) *options {
	t.Helper()
	o := newOptions(env)
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.addFlags(flags)
	require.NoError(t, flags.Parse(args))
	return o
}

// problems are what is wrong with options, one by one.
func problems(err error) []string {
	if err == nil {
		return nil
	}
	var texts []string
	for _, problem := range multierror.Append(nil, err).Errors {
		texts = append(texts, problem.Error())
	}
	return texts
}

// wrongFlags are command lines of the manager and all that is wrong with them.
func wrongFlags() map[string]struct{ args, want []string } {
	type c = struct{ args, want []string }
	return map[string]c{
		"nothing":        {nil, nil},
		"the whole API":  {[]string{"--metrics-bind-address=0", "--health-probe-bind-address=[::1]:0", "--webhook-url=https://[::1]:9443/base", "--namespace=team-a", "--watch-filter=a.b"}, nil},
		"never a scan":   {[]string{"--scan-interval=0"}, nil},
		"too many scans": {[]string{"--scan-interval=1s"}, []string{"--scan-interval=1s is neither 0 nor between 10s and 8760h0m0s"}},
		"mode":           {[]string{"--capi=maybe"}, []string{"invalid value maybe for --capi: must be auto, embedded or external"}},
		"addresses": {[]string{"--metrics-bind-address=8080", "--health-probe-bind-address=:http"},
			[]string{"--metrics-bind-address=8080 is not host:port", "--health-probe-bind-address=:http is not host:port"}},
		"ports too big": {[]string{"--metrics-bind-address=:65536", "--webhook-port=65536"},
			[]string{"--metrics-bind-address=:65536 is not host:port", "--webhook-port=65536 is not a valid port"}},
		"no port":              {[]string{"--webhook-port=0"}, []string{"--webhook-port=0 is not a valid port"}},
		"plain HTTP":           {[]string{"--webhook-url=http://h:1"}, []string{"--webhook-url is not of the form https://host:port"}},
		"no host":              {[]string{"--webhook-url=https://:9443"}, []string{"--webhook-url is not of the form https://host:port"}},
		"no URL":               {[]string{"--webhook-url=%zz"}, []string{"--webhook-url is not of the form https://host:port"}},
		"a password, untold":   {[]string{"--webhook-url=https://u:SECRET@h:1"}, []string{"--webhook-url is not of the form https://host:port"}},
		"a query":              {[]string{"--webhook-url=https://h:1/?a=b"}, []string{"--webhook-url is not of the form https://host:port"}},
		"no workers":           {[]string{"--concurrency=0"}, []string{"--concurrency and --machine-workers must be at least 1"}},
		"fewer Jobs than none": {[]string{"--max-concurrent-jobs=-1"}, []string{"--max-concurrent-jobs=-1 is negative"}},
		"fewer than none":      {[]string{"--machine-workers=-1"}, []string{"--concurrency and --machine-workers must be at least 1"}},
		"no namespace":         {[]string{"--manager-namespace="}, []string{"--manager-namespace must not be empty"}},
		"bad names": {[]string{"--manager-namespace=A", "--namespace=a/b", "--watch-filter=a b"},
			[]string{"--namespace=a/b is not a valid namespace name", "--manager-namespace=A is not a valid namespace name", "--watch-filter=a b is not a valid label value"}},
		"servers":             {[]string{"--server-url=https://[2001:db8::1]:9345", "--agents-bind-address=:9345", "--agents-cert-secret=mine"}, nil},
		"servers at a path":   {[]string{"--server-url=https://h/drover"}, []string{"--server-url is not of the form https://host or https://host:port"}},
		"servers, untold":     {[]string{"--server-url=https://u:SECRET@h"}, []string{"--server-url is not of the form https://host or https://host:port"}},
		"servers without TLS": {[]string{"--server-url=http://h"}, []string{"--server-url is not of the form https://host or https://host:port"}},
		"servers at no port":  {[]string{"--server-url=https://h:65536"}, []string{"--server-url is not of the form https://host or https://host:port"}},
		"servers, not here":   {[]string{"--server-url=https://h", "--agents-bind-address=0"}, []string{"--server-url needs --agents-bind-address, which is 0"}},
		"servers, all wrong": {[]string{"--agents-bind-address=9345", "--agents-cert-secret=A"},
			[]string{"--agents-bind-address=9345 is not host:port", `--agents-cert-secret: "A" is not a valid Secret name`}},
		"trusted":     {[]string{"--trusted-credential-namespaces=cattle-global-data,*"}, []string{"--trusted-credential-namespaces=* is not a valid namespace name"}},
		"no image":    {[]string{"--machine-image="}, []string{"--machine-image must be given"}},
		"pull policy": {[]string{"--image-pull-policy=always"}, []string{"--image-pull-policy=always must be Always, IfNotPresent or Never"}},
		"pull Secrets": {[]string{"--image-pull-secrets=one,Two,three/x"},
			[]string{`--image-pull-secrets: "Two" is not a valid Secret name`, `--image-pull-secrets: "three/x" is not a valid Secret name`}},
		"nodes": {[]string{"--node-selector=disk=fast,a b=c,x=y z"},
			[]string{`--node-selector: "a b" is not a valid key of a label or taint`, `--node-selector: "y z" is not a valid value of a label or taint`}},
		"pull Secrets twice": {[]string{"--image-pull-secrets=a,b,a"}, []string{`--image-pull-secrets: "a" is there twice`}},
		"image by digest":    {[]string{"--machine-image=[::1]:5000/a/b:1@sha256:" + strings.Repeat("0a", 32)}, nil},
		"no name of one":     {[]string{"--machine-image=A B"}, []string{`--machine-image: "A B" is not a valid image name`}},
		"no architecture":    {[]string{"--job-architectures="}, []string{"--job-architectures must name one, such as amd64 or arm64"}},
		"architectures":      {[]string{"--job-architectures=s390x,bogus"}, []string{`--job-architectures: "bogus" is not an architecture, such as amd64 or arm64`}},
		"durations": {[]string{"--job-deadline=-1s", "--job-ttl=999ms", "--job-grace-period=1ns", "--job-ssh-timeout=0s"}, []string{
			"--job-deadline=-1s must be at least a second", "--job-ttl=999ms must be at least a second", "--job-grace-period=1ns must be at least a second"}},
		"no time": {[]string{"--job-deadline=0", "--job-ttl=0", "--job-grace-period=0s"}, []string{
			"--job-deadline=0s must be at least a second", "--job-ttl=0s must be at least a second", "--job-grace-period=0s must be at least a second"}},
		"several": {[]string{"--capi=no", "--job-limits=cpu=much", "--tolerations=a:Never"}, []string{"invalid value no for --capi: must be auto, embedded or external",
			`--tolerations: the effect of "a:Never" must be NoSchedule, PreferNoSchedule or NoExecute`, "--job-limits: cpu=much is not a valid quantity"}},
	}
}

func TestValidate(t *testing.T) {
	for name, c := range wrongFlags() {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, environment(), append([]string{"--machine-image=x"}, c.args...)...)
			require.Equal(t, c.want, problems(o.validate()))
		})
	}
}

func TestNewOptions(t *testing.T) {
	o := newOptions(environment())
	require.Equal(t, "drover-system", o.managerNamespace)
	require.Equal(t, 5*time.Second, o.gracefulShutdown)
	require.Equal(t, "mine", newOptions(environment("POD_NAMESPACE", "mine")).managerNamespace)
	require.Equal(t, "drover-system", newOptions(environment("POD_NAMESPACE", "")).managerNamespace)
	o = parsed(t, environment("POD_NAMESPACE", "mine", "HTTPS_PROXY", "http://p:1", "no_proxy", "a,b"), "--manager-namespace=other", "--job-https-proxy=")
	require.Equal(t, "other", o.managerNamespace, "the flag goes before the environment")
	require.Empty(t, o.jobs.httpsProxy, "a flag that is empty takes the environment's away")
	require.Equal(t, "a,b", o.jobs.noProxy)
}

// TestHelp: flags are promises; what they are called and what they do by default changes on purpose only.
func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{"manager": {"--help"}, "manifests": {"manifests", "--help"}} {
		cmd := command(environment())
		out := &bytes.Buffer{}
		cmd.SetOut(out)
		cmd.SetArgs(args)
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		golden.Require(t, "testdata/"+name+"-help.golden", out.String())
	}
}

// TestCommand_fails: every start that cannot work ends with a sentence, before anything is changed.
func TestCommand_fails(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	gone := file("gone", "{apiVersion: v1, kind: Config, clusters: [{name: '', cluster: {server: 'http://127.0.0.1:1'}}]}")
	for want, args := range map[string][]string{
		`unknown command "start" for "manager"`:                                                             {"start"},
		"unknown flag: --nonsense":                                                                          {"--nonsense"},
		"--machine-image must be given":                                                                     {"--kubeconfig=" + gone},
		"finding the cluster: stat " + dir + "/x":                                                           {"--machine-image=x", "--kubeconfig=" + dir + "/x"},
		"finding the cluster: error loading config file \"" + file("bad", "{") + "\"":                       {"--machine-image=x", "--kubeconfig=" + dir + "/bad"},
		"reading --job-ca-file: open " + dir + "/none: no such file or directory":                           {"--machine-image=x", "--kubeconfig=" + gone, "--job-ca-file=" + dir + "/none"},
		"reading --job-ca-file: " + file("empty.pem", "") + " holds no certificate in PEM that can be read": {"--machine-image=x", "--kubeconfig=" + gone, "--job-ca-file=" + dir + "/empty.pem"},
		"looking for Rancher: failed to get server groups: Get \"http://127.0.0.1:1/api\": dial tcp 127.0.0.1:1: connect: connection refused": {"--machine-image=x", "--kubeconfig=" + gone},
		"invalid argument \"a\" for \"--node-selector\" flag: a must be formatted as key=value":                                               {"--node-selector=a"},
		"invalid argument \"soon\" for \"--job-deadline\" flag: time: invalid duration \"soon\"":                                              {"--job-deadline=soon"},
	} {
		cmd := command(environment())
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		require.ErrorContains(t, err, want)
	}
}

func TestVersion(t *testing.T) {
	cmd := command(environment())
	out := &bytes.Buffer{}
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--version"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Equal(t, "manager version "+version+"\n", out.String())
}
