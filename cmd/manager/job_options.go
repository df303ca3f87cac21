package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/jobrunner"
)

// jobOptions say how Jobs run; `manager manifests` takes the same flags and hands them on.
type jobOptions struct {
	image        string
	pullPolicy   string
	pullSecrets  []string
	nodeSelector map[string]string
	tolerations  []string
	httpProxy    string
	httpsProxy   string
	noProxy      string
	caFile       string
	deadline     time.Duration
	ttl          time.Duration
	gracePeriod  time.Duration
	sshTimeout   time.Duration
	requests     map[string]string
	limits       map[string]string
}

// newJobOptions takes the manager's own proxy for the Jobs' unless told otherwise.
func newJobOptions(env lookupEnv) jobOptions {
	first := func(names ...string) string {
		for _, name := range names {
			if value, ok := env(name); ok {
				return value
			}
		}
		return ""
	}
	return jobOptions{
		httpProxy:  first("HTTP_PROXY", "http_proxy"),
		httpsProxy: first("HTTPS_PROXY", "https_proxy"),
		noProxy:    first("NO_PROXY", "no_proxy"),
	}
}

func (j *jobOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&j.image, "machine-image", "", "image with /machine that Jobs run (required)")
	flags.StringVar(&j.pullPolicy, "image-pull-policy", "", "Always, IfNotPresent or Never, for Jobs (default: the cluster's)")
	flags.StringSliceVar(&j.pullSecrets, "image-pull-secrets", nil, "names of pull Secrets for Jobs; they must exist in the namespaces of the machines and in drover-drivers")
	flags.StringToStringVar(&j.nodeSelector, "node-selector", nil, "labels of the nodes that Jobs may run on")
	flags.StringSliceVar(&j.tolerations, "tolerations", nil, "taints that Jobs tolerate, as key=value:Effect, key:Effect or key")
	flags.StringVar(&j.httpProxy, "job-http-proxy", j.httpProxy, "HTTP_PROXY for Jobs (default: the manager's own)")
	flags.StringVar(&j.httpsProxy, "job-https-proxy", j.httpsProxy, "HTTPS_PROXY for Jobs (default: the manager's own)")
	flags.StringVar(&j.noProxy, "job-no-proxy", j.noProxy, "NO_PROXY for Jobs (default: the manager's own); the cluster's API is always added")
	flags.StringVar(&j.caFile, "job-ca-file", "", "PEM file of further CA certificates that Jobs trust")
	flags.DurationVar(&j.deadline, "job-deadline", 0, "when a Job is ended that has not ended by itself (default 40m)")
	flags.DurationVar(&j.ttl, "job-ttl", 0, "how long a Job stays after its end (default 24h)")
	flags.DurationVar(&j.gracePeriod, "job-grace-period", 0, "how long a Job's pod has to save what it knows when it is stopped (default 90s)")
	flags.DurationVar(&j.sshTimeout, "job-ssh-timeout", 0, "how long to wait for SSH after a server runs (default 5m)")
	flags.StringToStringVar(&j.requests, "job-requests", nil, "resources a Job asks for (default cpu=50m,memory=96Mi)")
	flags.StringToStringVar(&j.limits, "job-limits", nil, "resources a Job may use (default cpu=1,memory=768Mi)")
}

// validate names everything that is wrong with the flags for Jobs.
func (j *jobOptions) validate() []error {
	var problems []error
	if j.image == "" {
		problems = append(problems, errors.New("--machine-image must be given"))
	}
	switch corev1.PullPolicy(j.pullPolicy) {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		problems = append(problems, fmt.Errorf("--image-pull-policy=%s is none of Always, IfNotPresent, Never", j.pullPolicy))
	}
	if j.deadline < 0 || j.ttl < 0 || j.gracePeriod < 0 || j.sshTimeout < 0 {
		problems = append(problems, errors.New("durations of Jobs must not be negative"))
	}
	if _, err := parseTolerations(j.tolerations); err != nil {
		problems = append(problems, err)
	}
	for name, values := range map[string]map[string]string{"job-requests": j.requests, "job-limits": j.limits} {
		if _, err := parseResources(name, values); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// settings reads what the flags name, after validate.
func (j *jobOptions) settings() (jobrunner.Settings, error) {
	tolerations, err := parseTolerations(j.tolerations)
	if err != nil {
		return jobrunner.Settings{}, err
	}
	requests, err := parseResources("job-requests", j.requests)
	if err != nil {
		return jobrunner.Settings{}, err
	}
	limits, err := parseResources("job-limits", j.limits)
	if err != nil {
		return jobrunner.Settings{}, err
	}
	bundle, err := j.readCA()
	if err != nil {
		return jobrunner.Settings{}, err
	}
	return jobrunner.Settings{
		Image: j.image, ImagePullPolicy: corev1.PullPolicy(j.pullPolicy), ImagePullSecrets: j.pullSecrets,
		NodeSelector: j.nodeSelector, Tolerations: tolerations,
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		Proxy:     jobrunner.Proxy{HTTP: j.httpProxy, HTTPS: j.httpsProxy, No: j.noProxy},
		CABundle:  bundle, Deadline: j.deadline, TTL: j.ttl, GracePeriod: j.gracePeriod, SSHTimeout: j.sshTimeout,
	}.WithDefaults(), nil
}

func (j *jobOptions) readCA() ([]byte, error) {
	if j.caFile == "" {
		return nil, nil
	}
	bundle, err := os.ReadFile(filepath.Clean(j.caFile))
	if err != nil {
		return nil, fmt.Errorf("reading --job-ca-file: %w", err)
	}
	if block, _ := pem.Decode(bundle); block == nil {
		return nil, fmt.Errorf("reading --job-ca-file: %s holds no PEM", j.caFile)
	}
	return bundle, nil
}

func parseTolerations(texts []string) ([]corev1.Toleration, error) {
	var out []corev1.Toleration
	for _, text := range texts {
		rest, effect, _ := strings.Cut(text, ":")
		key, value, hasValue := strings.Cut(rest, "=")
		switch corev1.TaintEffect(effect) {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return nil, fmt.Errorf("--tolerations: the effect of %q is none of NoSchedule, PreferNoSchedule, NoExecute", text)
		}
		toleration := corev1.Toleration{Key: key, Value: value, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
		if hasValue {
			toleration.Operator = corev1.TolerationOpEqual
		}
		out = append(out, toleration)
	}
	return out, nil
}

func parseResources(flagName string, values map[string]string) (corev1.ResourceList, error) {
	if len(values) == 0 {
		return nil, nil
	}
	out := corev1.ResourceList{}
	for name, text := range values {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("--%s: %s=%s is no quantity", flagName, name, text)
		}
		out[corev1.ResourceName(name)] = quantity
	}
	return out, nil
}
