package jobrunner

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// Job runs one operation once. Trying again is the controller's work, with a new Job, so that each
// attempt keeps its own outcome and two pods never run for one machine.
func Job(t Task) *batchv1.Job {
	t.Settings = t.Settings.WithDefaults()
	container := t.stage(string(t.Request.Operation), mount(tokenVolume, tokenDir, true))
	container.Name, container.Command = "machine", []string{Command, string(t.Request.Operation)}
	return t.job(t.pod(container))
}

// ProbeJob reads the flags of an external driver. Its three containers run one after another; the
// unknown driver runs in the second alone, without a token.
func ProbeJob(t Task) *batchv1.Job {
	t.Settings = t.Settings.WithDefaults()
	report := t.stage(StageReport, mount(tokenVolume, tokenDir, true), mount(fetchedVolume, FetchedDir, true), mount(flagsVolume, FlagsDir, true))
	pod := t.pod(report)
	flags := t.stage(StageFlags, mount(fetchedVolume, FetchedDir, true), mount(flagsVolume, FlagsDir, false))
	for i, m := range flags.VolumeMounts {
		// The next container must not find files that the driver leaves behind.
		if m.Name == tmpVolume || m.Name == homeVolume {
			flags.VolumeMounts[i].Name = driverPrefix + m.Name
		}
	}
	pod.InitContainers = []corev1.Container{
		t.stage(StageFetch, mount(tokenVolume, tokenDir, true), mount(fetchedVolume, FetchedDir, false)), flags}
	pod.Volumes = append(pod.Volumes, t.scratch(fetchedVolume), t.scratch(flagsVolume),
		t.scratch(driverPrefix+tmpVolume), t.scratch(driverPrefix+homeVolume))
	return t.job(pod)
}

func (t Task) job(pod corev1.PodSpec) *batchv1.Job {
	// The Job's own deadline would count from its creation, and end one whose pod no node had room
	// for.
	pod.ActiveDeadlineSeconds = new(int64(t.Settings.Deadline.Seconds()))
	meta := t.meta(t.Name(), t.jobLabels())
	if t.Hash != "" {
		meta.Annotations = map[string]string{rkev1.RequestHashAnnotation: t.Hash}
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32),
			TTLSecondsAfterFinished: new(int32(t.Settings.TTL.Seconds())),
			PodReplacementPolicy:    new(batchv1.Failed),
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: t.jobLabels()}, Spec: pod},
		},
	}
}

// stage is one container of a probe. Its command line contains only its name.
func (t Task) stage(name string, mounts ...corev1.VolumeMount) corev1.Container {
	base := []corev1.VolumeMount{
		mount(requestVolume, RequestDir, true), mount(tmpVolume, "/tmp", false), mount(homeVolume, HomeDir, false)}
	if len(t.Settings.CABundle) > 0 {
		base = append(base, mount(caVolume, CADir, true))
	}
	return corev1.Container{
		Name:            name,
		Image:           t.Settings.Image,
		ImagePullPolicy: t.Settings.ImagePullPolicy,
		Command:         []string{Command, string(state.Probe), name},
		Env:             t.Settings.env(),
		Resources:       t.Settings.Resources,
		VolumeMounts:    append(base, mounts...),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(bool),
			Privileged:               new(bool),
			ReadOnlyRootFilesystem:   new(true),
			RunAsNonRoot:             new(true),
			RunAsUser:                new(int64(UserID)),
			RunAsGroup:               new(int64(UserID)),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func (t Task) pod(container corev1.Container) corev1.PodSpec {
	selector, affinity := t.Settings.nodes()
	// The copy of the pull Secrets, and those that the manager does not have, which may be in the
	// Job's namespace.
	var pull []corev1.LocalObjectReference
	if len(t.PullSecrets) > 0 {
		pull = append(pull, corev1.LocalObjectReference{Name: ObjectName(t.Name(), "pull")})
	}
	for _, name := range t.Settings.ImagePullSecrets {
		if !slices.ContainsFunc(t.PullSecrets, func(source corev1.Secret) bool { return source.Name == name }) {
			pull = append(pull, corev1.LocalObjectReference{Name: name})
		}
	}
	return corev1.PodSpec{
		Containers:                    []corev1.Container{container},
		RestartPolicy:                 corev1.RestartPolicyNever,
		ServiceAccountName:            t.accessName(),
		AutomountServiceAccountToken:  new(bool),
		EnableServiceLinks:            new(bool),
		TerminationGracePeriodSeconds: new(int64(t.Settings.GracePeriod.Seconds())),
		ImagePullSecrets:              pull,
		NodeSelector:                  selector,
		Affinity:                      affinity,
		Tolerations:                   t.Settings.Tolerations,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			RunAsUser:      new(int64(UserID)),
			RunAsGroup:     new(int64(UserID)),
			FSGroup:        new(int64(UserID)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: t.volumes(),
	}
}
