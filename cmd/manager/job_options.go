package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/jobrunner"
)

// jobOptions say how Jobs run; `manager manifests` takes the same flags and hands them on.
type jobOptions struct {
	image        string
	pullPolicy   string
	pullSecrets  []string
	nodeSelector map[string]string
	// architectures that the image is for.
	architectures []string
	tolerations   []string
	httpProxy     string
	httpsProxy    string
	noProxy       string
	// ownHTTP and ownHTTPS are the manager's own proxies.
	ownHTTP, ownHTTPS variable

	caFile      string
	deadline    time.Duration
	ttl         time.Duration
	gracePeriod time.Duration
	sshTimeout  time.Duration
	requests    map[string]string
	limits      map[string]string
}

// variable is one of the manager's environment; its name is empty when it is not set.
type variable struct{ name, value string }

// newJobOptions defaults the Jobs' proxy to the manager's own.
func newJobOptions(env lookupEnv) jobOptions {
	first := func(names ...string) variable {
		for _, name := range names {
			if value, ok := env(name); ok {
				return variable{name, value}
			}
		}
		return variable{}
	}
	defaults := jobrunner.Settings{}.WithDefaults()
	ownHTTP, ownHTTPS := first("HTTP_PROXY", "http_proxy"), first("HTTPS_PROXY", "https_proxy")
	return jobOptions{
		httpProxy: ownHTTP.value, httpsProxy: ownHTTPS.value, noProxy: first("NO_PROXY", "no_proxy").value,
		ownHTTP: ownHTTP, ownHTTPS: ownHTTPS,
		deadline: defaults.Deadline, ttl: defaults.TTL, gracePeriod: defaults.GracePeriod,
	}
}

func (j *jobOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&j.image, "machine-image", "", "image with /machine that Jobs run (required)")
	flags.StringVar(&j.pullPolicy, "image-pull-policy", "", "Always, IfNotPresent or Never, for Jobs (default: the cluster's)")
	flags.StringSliceVar(&j.pullSecrets, "image-pull-secrets", nil, "names of pull Secrets for Jobs; Secrets in the manager's namespace are copied to a Job's namespace while it runs, others must exist in the namespaces of the machines and in drover-drivers")
	flags.StringToStringVar(&j.nodeSelector, "node-selector", nil, "labels of the nodes that Jobs may run on")
	flags.StringSliceVar(&j.architectures, "job-architectures", []string{runtime.GOARCH}, "architectures of the Jobs' image; Jobs run on nodes of these architectures, "+
		"and external drivers must be built for each")
	flags.StringSliceVar(&j.tolerations, "tolerations", nil, "taints that Jobs tolerate, as key=value:Effect, key:Effect or key")
	flags.StringVar(&j.httpProxy, "job-http-proxy", j.httpProxy, "HTTP_PROXY for Jobs (default: the manager's own)")
	flags.StringVar(&j.httpsProxy, "job-https-proxy", j.httpsProxy, "HTTPS_PROXY for Jobs (default: the manager's own)")
	flags.StringVar(&j.noProxy, "job-no-proxy", j.noProxy, "NO_PROXY for Jobs (default: the manager's own); the cluster's API is always added")
	for _, name := range []string{"job-http-proxy", "job-https-proxy"} {
		flags.Lookup(name).DefValue = "" // --help does not show the environment's value, which may hold a password
	}
	flags.StringVar(&j.caFile, "job-ca-file", "", "PEM file of further CA certificates that Jobs trust")
	flags.DurationVar(&j.deadline, "job-deadline", j.deadline, "time limit of a Job's pod, counted from when a node accepts the pod")
	flags.DurationVar(&j.ttl, "job-ttl", j.ttl, "how long an ended Job is kept")
	flags.DurationVar(&j.gracePeriod, "job-grace-period", j.gracePeriod, "how long a stopped Job's pod has to save its state")
	flags.DurationVar(&j.sshTimeout, "job-ssh-timeout", 0, "how long to try to log in to a server (default 2m, or 5m to bootstrap over SSH)")
	flags.StringToStringVar(&j.requests, "job-requests", nil, "resource requests of a Job (default cpu=50m,memory=96Mi)")
	flags.StringToStringVar(&j.limits, "job-limits", nil, "resource limits of a Job (default cpu=1,memory=768Mi)")
}

// duration is a flag's value and its default.
type duration struct {
	name             string
	value, otherwise time.Duration
}

func (j *jobOptions) durations() []duration {
	defaults := jobrunner.Settings{}.WithDefaults()
	return []duration{{"job-deadline", j.deadline, defaults.Deadline}, {"job-ttl", j.ttl, defaults.TTL},
		{"job-grace-period", j.gracePeriod, defaults.GracePeriod}, {"job-ssh-timeout", j.sshTimeout, defaults.SSHTimeout}}
}

// kubernetesArchitectures are the architectures of Linux nodes, in Go's names.
var kubernetesArchitectures = []string{"amd64", "arm", "arm64", "ppc64le", "riscv64", "s390x"}

func isImage(text string) bool {
	_, err := name.ParseReference(text)
	return err == nil
}

// validate names everything that is wrong with the flags for Jobs.
func (j *jobOptions) validate(p *mistakes) {
	p.unless(j.image != "", "--machine-image must be given")
	p.unless(j.image == "" || isImage(j.image), "--machine-image: %q is not a valid image name", j.image)
	policies := []corev1.PullPolicy{"", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	p.unless(slices.Contains(policies, corev1.PullPolicy(j.pullPolicy)), "--image-pull-policy=%s must be Always, IfNotPresent or Never", j.pullPolicy)
	for i, name := range j.pullSecrets {
		p.unless(!slices.Contains(j.pullSecrets[:i], name), "--image-pull-secrets: %q is there twice", name)
		p.unless(len(validation.IsDNS1123Subdomain(name)) == 0, "--image-pull-secrets: %q is not a valid Secret name", name)
	}
	for _, key := range slices.Sorted(maps.Keys(j.nodeSelector)) {
		err := checkLabel(key, j.nodeSelector[key])
		p.unless(err == nil, "--node-selector: %w", err)
	}
	p.unless(len(j.architectures) > 0, "--job-architectures must name one, such as amd64 or arm64")
	for _, architecture := range j.architectures {
		p.unless(slices.Contains(kubernetesArchitectures, architecture), "--job-architectures: %q is not an architecture, such as amd64 or arm64", architecture)
	}
	j.validateProxies(p)
	for _, d := range j.durations() { // Kubernetes counts in seconds
		p.unless(d.value == d.otherwise || d.value >= time.Second, "--%s=%s must be at least a second", d.name, d.value)
	}
	_, err := parseTolerations(j.tolerations)
	p.unless(err == nil, "%w", err)
	j.validateResources(p)
}

// validateResources also compares the given values with the defaults of the others. The API server
// rejects a pod whose limit is below its request, but only when the pod is created, long after the
// manager started.
func (j *jobOptions) validateResources(p *mistakes) {
	requests, requestsErr := parseResources("job-requests", j.requests)
	limits, limitsErr := parseResources("job-limits", j.limits)
	p.unless(requestsErr == nil, "%w", requestsErr)
	p.unless(limitsErr == nil, "%w", limitsErr)
	if requestsErr != nil || limitsErr != nil {
		return
	}
	resources := jobrunner.Settings{Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}.WithDefaults().Resources
	for _, name := range slices.Sorted(maps.Keys(resources.Limits)) {
		limit, request := resources.Limits[name], resources.Requests[name]
		p.unless(limit.Cmp(request) >= 0, "--job-limits: %s=%s is less than the %s of --job-requests or its default", name, &limit, &request)
	}
}

// settings converts the flags, after validate.
func (j *jobOptions) settings() (jobrunner.Settings, error) {
	tolerations, tolerationsErr := parseTolerations(j.tolerations)
	requests, requestsErr := parseResources("job-requests", j.requests)
	limits, limitsErr := parseResources("job-limits", j.limits)
	bundle, bundleErr := j.readCA()
	if err := errors.Join(tolerationsErr, requestsErr, limitsErr, bundleErr); err != nil {
		return jobrunner.Settings{}, err
	}
	return jobrunner.Settings{
		Image: j.image, ImagePullPolicy: corev1.PullPolicy(j.pullPolicy), ImagePullSecrets: j.pullSecrets,
		NodeSelector: j.nodeSelector, Architectures: j.architectures, Tolerations: tolerations,
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		Proxy:     jobrunner.Proxy{HTTP: j.httpProxy, HTTPS: j.httpsProxy, No: j.noProxy},
		CABundle:  bundle, Deadline: j.deadline, TTL: j.ttl, GracePeriod: j.gracePeriod, SSHTimeout: j.sshTimeout,
	}.WithDefaults(), nil
}

// readCA takes certificates only: the bundle becomes a ConfigMap that many may read, which a key
// must not get into.
func (j *jobOptions) readCA() ([]byte, error) {
	if j.caFile == "" {
		return nil, nil
	}
	bundle, err := os.ReadFile(filepath.Clean(j.caFile))
	if err != nil {
		return nil, fmt.Errorf("reading --job-ca-file: %w", err)
	}
	found := false
	for block, next := pem.Decode(bundle); block != nil; block, next = pem.Decode(next) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("reading --job-ca-file: %s holds a %s; it must hold certificates and nothing else", j.caFile, block.Type)
		}
		// Bundles of systems have certificates that Go does not read, and drivers do without.
		_, err := x509.ParseCertificate(block.Bytes)
		found = found || err == nil
	}
	if !found {
		return nil, fmt.Errorf("reading --job-ca-file: %s holds no certificate in PEM that can be read", j.caFile)
	}
	return bundle, nil
}

// parseTolerations rejects an empty key, which would tolerate every taint and is a mistake.
func parseTolerations(texts []string) ([]corev1.Toleration, error) {
	var out []corev1.Toleration
	for _, text := range texts {
		rest, effect, _ := strings.Cut(text, ":")
		key, value, hasValue := strings.Cut(rest, "=")
		switch corev1.TaintEffect(effect) {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return nil, fmt.Errorf("--tolerations: the effect of %q must be NoSchedule, PreferNoSchedule or NoExecute", text)
		}
		if err := checkLabel(key, value); err != nil {
			return nil, fmt.Errorf("--tolerations: %w", err)
		}
		toleration := corev1.Toleration{Key: key, Value: value, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
		if hasValue {
			toleration.Operator = corev1.TolerationOpEqual
		}
		out = append(out, toleration)
	}
	return out, nil
}

func checkLabel(key, value string) error {
	if len(validation.IsQualifiedName(key)) > 0 {
		return fmt.Errorf("%q is not a valid key of a label or taint", key)
	}
	if len(validation.IsValidLabelValue(value)) > 0 {
		return fmt.Errorf("%q is not a valid value of a label or taint", value)
	}
	return nil
}

func parseResources(flagName string, values map[string]string) (corev1.ResourceList, error) {
	if len(values) == 0 {
		return nil, nil
	}
	out := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		quantity, err := resource.ParseQuantity(values[name])
		if err != nil || quantity.Sign() < 0 {
			return nil, fmt.Errorf("--%s: %s=%s is not a valid quantity", flagName, name, values[name])
		}
		// A standard one, or one with a vendor's domain.
		known := slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, corev1.ResourceName(name))
		if !known && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) && (!strings.Contains(name, "/") || len(validation.IsQualifiedName(name)) > 0) {
			return nil, fmt.Errorf("--%s: %s is not a resource of a container, such as cpu, memory, ephemeral-storage", flagName, name)
		}
		out[corev1.ResourceName(name)] = quantity
	}
	return out, nil
}

// Errors do not quote the address, because it may hold a password.
var (
	errProxyPassword = errors.New("holds a user or password, which every user with read access to Jobs could read: use a proxy without authentication")
	errProxyAddress  = errors.New("is not a valid proxy address, such as http://host:port, https://host:port, socks5://host:port or host:port")
)

// validateProxies names the source of a proxy that no flag set: the reader of the message may not
// know that Jobs inherit it.
func (j *jobOptions) validateProxies(p *mistakes) {
	for _, proxy := range []struct {
		flag, value string
		own         variable
	}{{"job-http-proxy", j.httpProxy, j.ownHTTP}, {"job-https-proxy", j.httpsProxy, j.ownHTTPS}} {
		err, origin := checkProxy(proxy.value), "--"+proxy.flag
		if proxy.value == proxy.own.value {
			origin = proxy.own.name + " of the manager's environment, which Jobs get too,"
		}
		p.unless(err == nil, "%s %w; --%s=ADDRESS gives Jobs another proxy, --%s= none", origin, err, proxy.flag, proxy.flag)
	}
}

// checkProxy reads an address as net/http does, which takes host:port without a scheme too.
func checkProxy(address string) error {
	if address == "" {
		return nil
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	target, err := url.Parse(address)
	switch {
	case err != nil || target.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, target.Scheme):
		return errProxyAddress
	case target.User != nil:
		return errProxyPassword
	}
	return nil
}
