package charts

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const gracePeriod = 40

func deployment(s Settings) *appsv1.Deployment {
	var pullSecrets []corev1.LocalObjectReference
	for _, name := range s.ImagePullSecrets {
		pullSecrets = append(pullSecrets, corev1.LocalObjectReference{Name: name})
	}
	container, volumes := container(s), []corev1.Volume(nil)
	if s.ServerURL != "" {
		container.Ports = append(container.Ports, corev1.ContainerPort{Name: "agents", ContainerPort: AgentsPort, Protocol: corev1.ProtocolTCP})
	}
	for _, ca := range s.certificates() {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: ca.volume, MountPath: ca.dir, ReadOnly: true})
		volumes = append(volumes, corev1.Volume{Name: ca.volume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ca.name}}}})
	}
	pod := corev1.PodSpec{
		ServiceAccountName:            Name,
		Containers:                    []corev1.Container{container},
		Volumes:                       volumes,
		ImagePullSecrets:              pullSecrets,
		NodeSelector:                  s.NodeSelector,
		Tolerations:                   s.Tolerations,
		TerminationGracePeriodSeconds: new(int64(gracePeriod)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	return &appsv1.Deployment{ObjectMeta: s.meta(Name), Spec: appsv1.DeploymentSpec{
		Replicas: &s.Replicas,
		Selector: &metav1.LabelSelector{MatchLabels: selector()},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector()}, Spec: pod},
	}}
}

func container(s Settings) corev1.Container {
	return corev1.Container{
		Name:            "manager",
		Image:           s.Image,
		ImagePullPolicy: s.ImagePullPolicy,
		Command:         []string{"/manager"},
		Args: append([]string{"--leader-elect", fmt.Sprintf("--webhook-port=%d", WebhookPort),
			fmt.Sprintf("--metrics-bind-address=:%d", MetricsPort), fmt.Sprintf("--health-probe-bind-address=:%d", HealthPort)}, s.Args...),
		Env: []corev1.EnvVar{fieldEnv("POD_NAMESPACE", "metadata.namespace"), fieldEnv("POD_NAME", "metadata.name"), fieldEnv("POD_UID", "metadata.uid")},
		Ports: []corev1.ContainerPort{
			{Name: "webhooks", ContainerPort: WebhookPort, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: MetricsPort, Protocol: corev1.ProtocolTCP},
			{Name: "health", ContainerPort: HealthPort, Protocol: corev1.ProtocolTCP},
		},
		LivenessProbe:  probe("/healthz", 15, 10),
		ReadinessProbe: probe("/readyz", 1, 2),
		// The webhooks answer on: nodes learn a moment later that the Service leads here no more.
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(bool), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// probe waits long for its answer. Somebody who floods a port may leave the manager little CPU time for some seconds: a busy manager is not a broken one.
// Were it taken out of its Services, or killed, nobody would be answered at all. One that is gone refuses the connection, which needs no wait.
func probe(path string, delay, period int32) *corev1.Probe {
	const patience = 10
	return &corev1.Probe{InitialDelaySeconds: delay, PeriodSeconds: period, TimeoutSeconds: patience, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")}}}
}

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
	// ReleasesConfigMap takes the place of the catalogue of releases that is built in; nobody makes it but an administrator.
	ReleasesConfigMap = "drover-releases"
	// AgentsService is the Service of the port that agents call, and AgentsDir has the agents that servers fetch.
	AgentsService = "drover-agents"
	AgentsDir     = "/usr/share/drover/agents"
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
	AgentsPort  = 9345
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
	// ServerURL is how servers reach AgentsService; empty when no agents call.
	ServerURL string
	// AgentsServiceType is AgentsService's, when empty NodePort with an AgentsNodePort and otherwise ClusterIP; that is its port on nodes, any when 0.
	AgentsServiceType corev1.ServiceType
	AgentsNodePort    int32
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
