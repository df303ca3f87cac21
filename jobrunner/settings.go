package jobrunner

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Settings apply to all Jobs; cmd/manager reads them from its flags.
type Settings struct {
	// Image holds cmd/machine; one for all Jobs.
	Image string
	// ImagePullPolicy of the image; the cluster's default when empty.
	ImagePullPolicy corev1.PullPolicy
	// ImagePullSecrets are names of Secrets in PullNamespace, where the manager runs. A Secret that
	// does not exist there must exist in the Job's namespace.
	ImagePullSecrets []string
	PullNamespace    string
	// NodeSelector and Tolerations say where Jobs may run.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// Architectures that the image is for, as Go names them; pods go to nodes of these, and of
	// Linux. None leaves that to NodeSelector.
	Architectures []string
	// Resources of the container; by default 50m and 96Mi are requested, 1 CPU and 768Mi are the
	// limit.
	Resources corev1.ResourceRequirements
	// Proxy is passed on to the driver.
	Proxy Proxy
	// CABundle holds further CA certificates (PEM), trusted in addition to the certificates in the
	// image.
	CABundle []byte
	// Deadline is the time limit of a pod, counted from its scheduling to a node; 40 minutes by
	// default.
	Deadline time.Duration
	// TTL is how long a Job stays after its end; one day by default. Its outcome stays longer, on
	// the machine.
	TTL time.Duration
	// GracePeriod is the time that a pod has to save its results after SIGTERM; 90 seconds by
	// default.
	GracePeriod time.Duration
	// SSHTimeout bounds the login to a server if the machine sets no timeout; 0 selects the pod's
	// own defaults.
	SSHTimeout time.Duration
	// ScratchSize limits each of the pod's writable directories; 512Mi by default.
	ScratchSize resource.Quantity
}

// Proxy are the usual three settings; empty ones are not passed on. They hold no password, for Jobs
// and pods show them to everyone: cmd/manager refuses one.
type Proxy struct {
	HTTP, HTTPS, No string
}

// WithDefaults fills in the defaults.
func (s Settings) WithDefaults() Settings {
	for setting, otherwise := range map[*time.Duration]time.Duration{
		&s.Deadline: 40 * time.Minute, &s.TTL: 24 * time.Hour, &s.GracePeriod: 90 * time.Second,
	} {
		if *setting <= 0 {
			*setting = otherwise
		}
	}
	if s.ScratchSize.IsZero() {
		s.ScratchSize = resource.MustParse("512Mi")
	}
	if s.Resources.Requests == nil {
		s.Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("96Mi")}
	}
	if s.Resources.Limits == nil {
		s.Resources.Limits = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("768Mi")}
	}
	return s
}

// nodes returns where pods may run: on nodes that can run the image, unless the user's selector
// overrides it.
func (s Settings) nodes() (map[string]string, *corev1.Affinity) {
	selector := map[string]string{corev1.LabelOSStable: "linux"}
	if len(s.Architectures) == 1 {
		selector[corev1.LabelArchStable] = s.Architectures[0]
	}
	maps.Copy(selector, s.NodeSelector)
	if _, chosen := selector[corev1.LabelArchStable]; chosen || len(s.Architectures) == 0 {
		return selector, nil
	}
	return selector, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: s.Architectures}}}}}}}
}

// env returns the environment of every container. It contains no secrets: they are in the request
// Secret. Each proxy setting has both spellings, because programs read one or the other. The
// cluster's own API is never proxied.
func (s Settings) env() []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "HOME", Value: HomeDir}, {Name: "TMPDIR", Value: "/tmp"}}
	if len(s.CABundle) > 0 {
		// Both are read, in addition to the image's own file of certificates.
		env = append(env, corev1.EnvVar{Name: "SSL_CERT_DIR", Value: "/etc/ssl/certs:" + CADir})
	}
	if s.Proxy.HTTP == "" && s.Proxy.HTTPS == "" {
		return env
	}
	no := "$(KUBERNETES_SERVICE_HOST),kubernetes.default.svc"
	if s.Proxy.No != "" {
		no = s.Proxy.No + "," + no
	}
	for _, setting := range [][2]string{{"HTTP_PROXY", s.Proxy.HTTP}, {"HTTPS_PROXY", s.Proxy.HTTPS}, {"NO_PROXY", no}} {
		if name, value := setting[0], setting[1]; value != "" {
			env = append(env, corev1.EnvVar{Name: name, Value: value}, corev1.EnvVar{Name: strings.ToLower(name), Value: value})
		}
	}
	return env
}
