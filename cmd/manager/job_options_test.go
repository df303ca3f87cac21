package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-project/drover/endpoint/certificate"
	"github.com/drover-project/drover/jobrunner"
)

// authorityPEM is a certificate of an authority, in PEM.
func authorityPEM(t *testing.T) []byte {
	t.Helper()
	now := time.Now()
	content, _, err := certificate.Authority("test", now, now.Add(time.Hour))
	require.NoError(t, err)
	return content
}

func TestParseTolerations(t *testing.T) {
	equal, exists := corev1.TolerationOpEqual, corev1.TolerationOpExists
	for text, want := range map[string]struct {
		toleration corev1.Toleration
		err        string
	}{
		"dedicated":                   {toleration: corev1.Toleration{Key: "dedicated", Operator: exists}},
		"dedicated=drover":            {toleration: corev1.Toleration{Key: "dedicated", Operator: equal, Value: "drover"}},
		"dedicated=drover:NoSchedule": {toleration: corev1.Toleration{Key: "dedicated", Operator: equal, Value: "drover", Effect: corev1.TaintEffectNoSchedule}},
		"example.com/a:NoExecute":     {toleration: corev1.Toleration{Key: "example.com/a", Operator: exists, Effect: corev1.TaintEffectNoExecute}},
		"a=:PreferNoSchedule":         {toleration: corev1.Toleration{Key: "a", Operator: equal, Effect: corev1.TaintEffectPreferNoSchedule}},
		"a:":                          {toleration: corev1.Toleration{Key: "a", Operator: exists}},
		"":                            {err: `--tolerations: "" is not a valid key of a label or taint`},
		":NoSchedule":                 {err: `--tolerations: "" is not a valid key of a label or taint`},
		"=drover":                     {err: `--tolerations: "" is not a valid key of a label or taint`},
		"a b":                         {err: `--tolerations: "a b" is not a valid key of a label or taint`},
		"a=b=c":                       {err: `--tolerations: "b=c" is not a valid value of a label or taint`},
		"a:noschedule":                {err: `--tolerations: the effect of "a:noschedule" must be NoSchedule, PreferNoSchedule or NoExecute`},
		"a:NoSchedule:x":              {err: `--tolerations: the effect of "a:NoSchedule:x" must be NoSchedule, PreferNoSchedule or NoExecute`},
	} {
		t.Run(strings.ReplaceAll(text, "/", "|"), func(t *testing.T) {
			got, err := parseTolerations([]string{"first", text})
			if want.err != "" {
				require.EqualError(t, err, want.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []corev1.Toleration{{Key: "first", Operator: exists}, want.toleration}, got)
		})
	}
}

func TestResources(t *testing.T) {
	for name, c := range map[string]struct {
		args, want []string
	}{
		"defaults":                {nil, nil},
		"as much as is asked for": {[]string{"--job-requests=cpu=2,memory=1Gi", "--job-limits=cpu=2,memory=1024Mi"}, nil},
		"of a vendor":             {[]string{"--job-limits=example.com/gpu=1,hugepages-2Mi=4Mi,ephemeral-storage=1Gi"}, nil},
		"less than the default":   {[]string{"--job-limits=memory=64Mi"}, []string{"--job-limits: memory=64Mi is less than the 96Mi of --job-requests or its default"}},
		"more than the default":   {[]string{"--job-requests=cpu=4"}, []string{"--job-limits: cpu=1 is less than the 4 of --job-requests or its default"}},
		"less than asked for":     {[]string{"--job-requests=cpu=1,memory=2Gi", "--job-limits=cpu=100m,memory=1Gi"}, []string{"--job-limits: cpu=100m is less than the 1 of --job-requests or its default", "--job-limits: memory=1Gi is less than the 2Gi of --job-requests or its default"}},
		"no quantity":             {[]string{"--job-requests=cpu=", "--job-limits=memory=1GB5"}, []string{"--job-requests: cpu= is not a valid quantity", "--job-limits: memory=1GB5 is not a valid quantity"}},
		"less than nothing":       {[]string{"--job-limits=cpu=-1"}, []string{"--job-limits: cpu=-1 is not a valid quantity"}},
		"no resource":             {[]string{"--job-limits=ram=1Gi"}, []string{"--job-limits: ram is not a resource of a container, such as cpu, memory, ephemeral-storage"}},
		"no resource of a vendor": {[]string{"--job-requests=a b/c=1"}, []string{"--job-requests: a b/c is not a resource of a container, such as cpu, memory, ephemeral-storage"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, environment(), append([]string{"--machine-image=x"}, c.args...)...)
			require.Equal(t, c.want, problems(o.validate()))
		})
	}
}

// TestProxies: a password would be read by everyone who may look at a Job. The message says whose it is, and never tells it.
func TestProxies(t *testing.T) {
	const password = "holds a user or password, which every user with read access to Jobs could read: use a proxy without authentication"
	const noAddress = "is not a valid proxy address, such as http://host:port, https://host:port, socks5://host:port or host:port"
	const elseHTTP, elseHTTPS = "; --job-http-proxy=ADDRESS gives Jobs another proxy, --job-http-proxy= none", "; --job-https-proxy=ADDRESS gives Jobs another proxy, --job-https-proxy= none"
	type pairs = []string
	for name, c := range map[string]struct{ env, args, want []string }{
		"none":                {nil, nil, nil},
		"every scheme":        {nil, pairs{"--job-http-proxy=socks5://proxy:1080", "--job-https-proxy=https://[::1]:3128/"}, nil},
		"no scheme":           {nil, pairs{"--job-http-proxy=proxy:3128", "--job-https-proxy=10.0.0.1"}, nil},
		"SOCKS, asks itself":  {nil, pairs{"--job-http-proxy=socks5h://proxy", "--job-https-proxy=HTTP://proxy"}, nil},
		"a password":          {nil, pairs{"--job-http-proxy=http://u:SECRET@proxy:1"}, pairs{"--job-http-proxy " + password + elseHTTP}},
		"no scheme, password": {nil, pairs{"--job-https-proxy=u:SECRET@proxy:1"}, pairs{"--job-https-proxy " + password + elseHTTPS}},
		"a user alone":        {nil, pairs{"--job-https-proxy=http://SECRET@proxy:1"}, pairs{"--job-https-proxy " + password + elseHTTPS}},
		"opaque, password":    {nil, pairs{"--job-https-proxy=http:u:SECRET@proxy"}, pairs{"--job-https-proxy " + password + elseHTTPS}},
		"no URL, password":    {nil, pairs{"--job-http-proxy=http://u:%zzSECRET@proxy"}, pairs{"--job-http-proxy " + noAddress + elseHTTP}},
		"no host":             {nil, pairs{"--job-http-proxy=http://", "--job-https-proxy=:3128"}, pairs{"--job-http-proxy " + noAddress + elseHTTP, "--job-https-proxy " + noAddress + elseHTTPS}},
		"no scheme of Go's":   {nil, pairs{"--job-http-proxy=ftp://SECRET:21"}, pairs{"--job-http-proxy " + noAddress + elseHTTP}},
		"the manager's own":   {pairs{"HTTP_PROXY", "http://u:SECRET@p", "https_proxy", "SECRET:x@p"}, nil, pairs{"HTTP_PROXY of the manager's environment, which Jobs get too, " + password + elseHTTP, "https_proxy of the manager's environment, which Jobs get too, " + password + elseHTTPS}},
		"its own, not passed": {pairs{"HTTP_PROXY", "http://u:SECRET@p", "HTTPS_PROXY", "u:SECRET@p"}, pairs{"--job-http-proxy=", "--job-https-proxy=http://other:1"}, nil},
		"empty in the env":    {pairs{"HTTP_PROXY", ""}, pairs{"--job-http-proxy=http://u:SECRET@p"}, pairs{"--job-http-proxy " + password + elseHTTP}},
	} {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, environment(c.env...), append([]string{"--machine-image=x"}, c.args...)...)
			require.Equal(t, c.want, problems(o.validate()))
		})
	}
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	newOptions(environment("HTTP_PROXY", "http://u:SECRET@p", "HTTPS_PROXY", "http://u:SECRET@p")).addFlags(flags)
	require.NotContains(t, flags.FlagUsages(), "SECRET")
}

// TestReadCA: certificates and nothing else, for they become a ConfigMap.
func TestReadCA(t *testing.T) {
	one, two := authorityPEM(t), authorityPEM(t)
	key := []byte("-----BEGIN PRIVATE KEY-----\nU0VDUkVU\n-----END PRIVATE KEY-----\n")
	broken := []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
	path := filepath.Join(t.TempDir(), "ca.pem")
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"one":                     {one, ""},
		"two with a text":         {slices.Concat([]byte("# ours\n"), one, []byte("\n# theirs\n"), two), ""},
		"empty":                   {nil, path + " holds no certificate in PEM that can be read"},
		"not PEM":                 {[]byte("hello"), path + " holds no certificate in PEM that can be read"},
		"a key":                   {key, path + " holds a PRIVATE KEY; it must hold certificates and nothing else"},
		"a key after it":          {slices.Concat(one, key), path + " holds a PRIVATE KEY; it must hold certificates and nothing else"},
		"what is no certificate":  {broken, path + " holds no certificate in PEM that can be read"},
		"one that Go cannot read": {slices.Concat(one, broken), ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, c.content, 0o600))
			bundle, err := (&jobOptions{caFile: path}).readCA()
			if c.want != "" {
				require.EqualError(t, err, "reading --job-ca-file: "+c.want)
				require.NotContains(t, err.Error(), "U0VDUkVU")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.content, bundle)
		})
	}
	bundle, err := (&jobOptions{}).readCA()
	require.NoError(t, err)
	require.Empty(t, bundle)
}

func TestSettings(t *testing.T) {
	ca := authorityPEM(t)
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, ca, 0o600))
	env := environment("HTTP_PROXY", "http://upper:1", "http_proxy", "http://lower:1", "https_proxy", "http://lower:2", "NO_PROXY", "")
	o := parsed(t, env, "--machine-image=r/i:1", "--image-pull-policy=Always", "--image-pull-secrets=a,b", "--image-pull-secrets=c", "--node-selector=disk=fast",
		"--tolerations=x:NoSchedule", "--job-no-proxy=h", "--job-ca-file="+path, "--job-deadline=1m", "--job-ttl=2m", "--job-grace-period=3s", "--job-ssh-timeout=4s",
		"--job-requests=cpu=1,memory=2Mi", "--job-limits=cpu=2")
	require.NoError(t, o.validate())
	settings, err := o.jobs.settings()
	require.NoError(t, err)
	require.Equal(t, jobrunner.Settings{
		Image: "r/i:1", ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []string{"a", "b", "c"}, NodeSelector: map[string]string{"disk": "fast"}, Architectures: []string{runtime.GOARCH},
		Tolerations: []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("2Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
		Proxy:    jobrunner.Proxy{HTTP: "http://upper:1", HTTPS: "http://lower:2", No: "h"},
		CABundle: ca, Deadline: time.Minute, TTL: 2 * time.Minute, GracePeriod: 3 * time.Second, SSHTimeout: 4 * time.Second,
		ScratchSize: resource.MustParse("512Mi"),
	}, settings)
	for _, wrong := range [][]string{{"--tolerations=:x"}, {"--job-requests=cpu=x"}, {"--job-limits=cpu=x"}, {"--job-ca-file=" + path + "x"}} {
		_, err := parsed(t, env, wrong...).jobs.settings()
		require.Error(t, err, wrong)
	}
}

// TestArgs: what `manager manifests` hands on means to the manager what it meant there.
func TestArgs(t *testing.T) {
	for name, args := range map[string][]string{
		"least": {"--machine-image=r/i:1"},
		"most": {"--machine-image=r/i:1", "--job-architectures=riscv64,amd64", "--image-pull-policy=Never", "--image-pull-secrets=one,two", "--node-selector=disk=fast,example.com/zone=b", "--tolerations=a=b:NoSchedule,c",
			"--job-http-proxy=http://p:1", "--job-https-proxy=http://p:2/x?y=1,2", "--job-no-proxy=.x,10.0.0.0/8", "--job-deadline=90m", "--job-ttl=1h30m0.5s", "--job-grace-period=2m",
			"--job-ssh-timeout=10m", "--job-requests=memory=1Gi,cpu=100m", "--job-limits=cpu=2,memory=2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			first := newJobOptions(environment())
			flags := pflag.NewFlagSet("manifests", pflag.ContinueOnError)
			first.addFlags(flags)
			require.NoError(t, flags.Parse(args))
			require.Equal(t, first, parsed(t, environment(), handedOnArgs(t, args...)...).jobs)
		})
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, authorityPEM(t), 0o600))
	require.Contains(t, handedOnArgs(t, "--machine-image=x", "--job-ca-file="+ca), "--job-ca-file=/etc/drover/job-ca/ca.pem", "in the pod it is elsewhere")
	require.Contains(t, handedOnArgs(t, "--machine-image=x", "--image=y"), "--machine-image=x")
}

// handedOnArgs are the arguments of the manager's container.
func handedOnArgs(t *testing.T, args ...string) (found []string) {
	t.Helper()
	out, err := manifests(t, args...)
	require.NoError(t, err)
	containers, _, err := unstructured.NestedSlice(objects(t, out)["Deployment drover-manager"], "spec", "template", "spec", "containers")
	require.NoError(t, err)
	found, _, err = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	require.NoError(t, err)
	return found
}

// TestManifests_refuse: what the manager would refuse in the cluster is refused before anything is printed.
func TestManifests_refuse(t *testing.T) {
	for want, args := range map[string][]string{
		"--replicas=0 must be at least 1":                             {"--replicas=0"},
		"--namespace=A is not a valid namespace name":                 {"--namespace=A"},
		"--namespace= is not a valid namespace name":                  {"--namespace="},
		"--manager-arg: unknown flag: --nonsense":                     {"--manager-arg=--nonsense"},
		`--manager-arg: "v=1" is not a flag of the manager`:           {"--manager-arg=v=1"},
		"--manager-arg: invalid argument \"x\" for \"--concurrency\"": {"--manager-arg=--concurrency=x"},
		"--manager-arg: --job-http-proxy holds a user or password":    {"--manager-arg=--job-http-proxy=u:p@h"},
		"--job-https-proxy holds a user or password":                  {"--job-https-proxy=http://u:p@h"},
		"--job-limits: memory=1Mi is less than the 96Mi":              {"--job-limits=memory=1Mi"},
		`--job-architectures: "a b" is not an architecture`:           {"--job-architectures=a b"},
		`--tolerations: "" is not a valid key`:                        {"--tolerations=a,,b"},
		"--image-pull-policy=Sometimes must be Always":                {"--image-pull-policy=Sometimes"},
		"reading --job-ca-file":                                       {"--job-ca-file=/nonexistent"},
		"invalid value maybe for --capi: must be auto":                {"--capi=maybe"},
		"--api-server-cidr=192.0.2.1 is not of the form":              {"--api-server-cidr=192.0.2.1"},
		"192.0.2.10/24 begins within its range: write 192.0.2.0/24":   {"--api-server-cidr=192.0.2.10/24"},
		"reading --webhook-client-ca-file":                            {"--webhook-client-ca-file=/dev/null"},
		"--job-deadline=-1s must be at least a second":                {"--job-deadline=-1s"},
		"--machine-image must be given":                               {"--machine-image="},
	} {
		out, err := manifests(t, append([]string{"--machine-image=x"}, args...)...)
		require.ErrorContains(t, err, want)
		require.Empty(t, out)
	}
	_, err := manifests(t, "--replicas=0", "--capi=x", "--manager-arg=--y", "--job-ttl=1ms")
	require.Len(t, problems(err), 5, "everything at once")
	out, err := manifests(t, "--image=only:1")
	require.NoError(t, err)
	require.Contains(t, out, "--machine-image=only:1", "one image for both")
	require.True(t, bytes.HasPrefix([]byte(out), []byte("---\n")))
}
