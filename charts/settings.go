package charts

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// Names of what belongs to the manager.
const (
	// Name of the Deployment, service account, roles and bindings.
	Name = "drover-manager"
	// DefaultNamespace is where the manager runs unless told otherwise.
	DefaultNamespace = "drover-system"
	// WebhookService is the Service through which the API server reaches the webhooks.
	WebhookService = "drover-webhooks"
	// MetricsService is the Service of the metrics.
	MetricsService = "drover-metrics"
	// JobCAConfigMap holds the further CA certificates of Jobs, and JobCAFile is where the manager finds them.
	JobCAConfigMap = "drover-job-ca"
	JobCAFile      = jobCADir + "/" + jobCAKey

	// WebhookCAConfigMap and WebhookCAFile are the same for the CA of API servers.
	WebhookCAConfigMap = "drover-webhook-client-ca"
	WebhookCAFile      = webhookCADir + "/" + jobCAKey

	jobCADir     = "/etc/drover/job-ca"
	webhookCADir = "/etc/drover/webhook-client-ca"
	jobCAKey     = "ca.pem"
)

// Ports of the manager.
const (
	WebhookPort = 9443
	MetricsPort = 8080
	HealthPort  = 8081
)

// Settings of an installation.
type Settings struct {
	// Namespace of the manager; DefaultNamespace when empty.
	Namespace string
	// Image of the manager; required.
	Image string
	// ImagePullPolicy and ImagePullSecrets are those of the manager's own pod.
	ImagePullPolicy  corev1.PullPolicy
	ImagePullSecrets []string
	// Replicas of the manager; 1 when 0.
	Replicas int32
	// ExternalCAPI says that Cluster API is somebody else's, and so are users' rights to its kinds.
	ExternalCAPI bool
	// Args are further flags of the manager.
	Args []string
	// JobCA are further CA certificates for Jobs, PEM.
	JobCA []byte
	// WebhookClientCA are the CA certificates of API servers, PEM: only who shows one of theirs may call the webhooks.
	WebhookClientCA []byte
	// APIServerCIDRs are where API servers call from; with them a NetworkPolicy lets nobody else reach the webhooks.
	APIServerCIDRs []string
	// NodeSelector and Tolerations of the manager's pod.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// WithCRDs adds our static CRDs, which the manager otherwise installs itself: clusterctl looks for them.
	WithCRDs bool
}

func (s Settings) withDefaults() (Settings, error) {
	if s.Image == "" {
		return s, errors.New("the image must be given")
	}
	if s.Replicas < 0 {
		return s, errors.New("the number of replicas must not be negative")
	}
	if s.Namespace == "" {
		s.Namespace = DefaultNamespace
	}
	if s.Replicas == 0 {
		s.Replicas = 1
	}
	return s, nil
}
